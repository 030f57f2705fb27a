package transport

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Texts of TransportProtocols.md and of SignalR's server.
const (
	textNoID        = "Connection ID required"
	textUnknownID   = "No Connection with that ID"
	textOtherWay    = "Cannot change transports mid-connection"
	textNoPost      = "POST requests are not allowed for WebSocket connections."
	textNoDelete    = "Cannot terminate this connection using the DELETE endpoint."
	textUnsupported = " transport not supported by this end point type"
	textNoHTTP2     = "WebSockets over HTTP/2 are not supported: connect with HTTP/1.1"
)

// errUnknownID answers every id that opens nothing.
func errUnknownID() *StatusError {
	return &StatusError{Code: http.StatusNotFound, Text: textUnknownID}
}

// get opens a connection or goes on with it, or says why not.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request) {
	kind := requestedKind(r)
	id, _ := queryValue(r, "id")
	var why Refusal
	var refused *StatusError
	switch kind {
	case WebSockets:
		why, refused = e.getWebSocket(w, r, id)
	case LongPolling:
		setPollHeaders(w.Header())
		fallthrough
	default:
		why, refused = e.getRecord(w, r, kind, id)
	}
	switch {
	case refused == nil:
	case why == RefusedVanished:
		e.count(r, why, refused) // nobody is left to be answered
	default:
		e.refuse(w, r, why, refused)
	}
}

// getRecord serves an event stream or a poll.
func (e *Endpoint) getRecord(w http.ResponseWriter, r *http.Request, kind Kind, id string) (Refusal, *StatusError) {
	if id == "" {
		return RefusedNoID, &StatusError{Code: http.StatusBadRequest, Text: textNoID}
	}
	t, why, refused := e.readToken(id)
	if refused != nil {
		return why, refused
	}
	if e.isElsewhere(&t, kind) {
		return e.passOn(w, r, &t)
	}
	rec, why, refused := e.find(r, &t)
	switch {
	case why == RefusedIDInUse: // a WebSocket of another instance
		return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
	case refused != nil:
		return why, refused
	case !e.offers(kind):
		return RefusedTransport, &StatusError{Code: http.StatusNotFound, Text: string(kind) + textUnsupported}
	case rec == nil && e.opts.Claims.InUse(t.connID()):
		return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
	case rec == nil:
		if unavailable := e.available(); unavailable != nil {
			return RefusedUnavailable, unavailable
		}
	}
	if kind == ServerSentEvents && !canFlush(w) {
		e.warn(r, "transport: no event streams here: the ResponseWriter of a middleware hides http.Flusher")
		return RefusedUpgrade, &StatusError{Code: http.StatusInternalServerError}
	}
	if !hasDeadlines(w) {
		e.warn(r, "transport: slow clients cannot be ended here: the ResponseWriter of a middleware hides its deadlines, give it Unwrap")
		if kind == ServerSentEvents {
			return RefusedUpgrade, &StatusError{Code: http.StatusInternalServerError}
		}
	}
	rec, why, refused = e.acquire(r, &t)
	switch {
	case why == RefusedIDInUse: // a WebSocket of another instance
		return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
	case refused != nil:
		return why, refused
	}
	if why, refused := e.own(r, rec); refused != nil {
		return why, refused
	}
	switch kind {
	case ServerSentEvents:
		return e.stream(w, r, rec)
	default:
		return e.poll(w, r, rec)
	}
}

// admit asks whether the record's connection may open. If so, the connection
// counts until leave; if not, the record is detached.
func (e *Endpoint) admit(r *http.Request, rec *record, kind Kind) (func(Conn), Refusal, *StatusError) {
	if why, refused := e.enter(); refused != nil {
		rec.detach()
		return nil, why, refused
	}
	admitted := false
	defer func() { // a panic in Open included
		if !admitted {
			rec.detach()
			e.leave()
		}
	}()
	serve, err := e.opts.Open(r, Info{ID: rec.id, Kind: kind, Negotiated: true})
	if err != nil {
		return nil, RefusedByOpen, asStatus(err, http.StatusInternalServerError)
	}
	admitted = true
	return serve, 0, nil
}

func (e *Endpoint) offers(kind Kind) bool { return slices.Contains(e.opts.Transports, kind) }

// getWebSocket opens a WebSocket.
func (e *Endpoint) getWebSocket(w http.ResponseWriter, r *http.Request, id string) (Refusal, *StatusError) {
	if e.offers(WebSockets) {
		if err := checkUpgrade(r); err != nil {
			e.warn(r, "transport: not a WebSocket handshake, a proxy may have changed it: "+err.Text)
			w.Header().Set("Sec-WebSocket-Version", "13")
			if err.Code == http.StatusUpgradeRequired {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "websocket")
			}
			return RefusedUpgrade, err
		}
		if !canHijack(w) {
			e.warn(r, "transport: no WebSockets here: the ResponseWriter of a middleware hides http.Hijacker")
			return RefusedUpgrade, &StatusError{Code: http.StatusInternalServerError}
		}
	}
	off := &StatusError{Code: http.StatusNotFound, Text: string(WebSockets) + textUnsupported}
	if id == "" {
		if !e.offers(WebSockets) {
			return RefusedTransport, off
		}
		return e.openWebSocket(w, r, nil)
	}
	t, why, refused := e.readToken(id)
	if refused != nil {
		return why, refused
	}
	if e.isElsewhere(&t, WebSockets) {
		return e.passOn(w, r, &t)
	}
	rec, why, refused := e.find(r, &t)
	switch {
	case refused != nil:
		return why, refused
	case !e.offers(WebSockets):
		return RefusedTransport, off
	case rec != nil || e.resumes(&t):
		return e.openOnRecord(w, r, &t)
	default:
		return e.openWebSocket(w, r, &t)
	}
}

// requestedKind says what a GET asks for, in SignalR's order: an event stream
// even if it is also an upgrade, and a poll if it is neither. Whatever has one
// of a handshake's headers counts as an upgrade, so that a mangled one is told
// what it lacks.
func requestedKind(r *http.Request) Kind {
	for _, accept := range r.Header["Accept"] {
		for media := range strings.SplitSeq(accept, ",") {
			if strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
				return ServerSentEvents
			}
		}
	}
	if hasToken(r.Header["Upgrade"], "websocket") || r.Header["Sec-Websocket-Key"] != nil || r.Header["Sec-Websocket-Version"] != nil {
		return WebSockets
	}
	return LongPolling
}

// checkUpgrade says what is wrong with a WebSocket handshake (RFC 6455 section
// 4.2.1), before anything is opened for it.
func checkUpgrade(r *http.Request) *StatusError {
	bad := func(code int, text string) *StatusError { return &StatusError{Code: code, Text: text} }
	switch {
	case r.ProtoMajor > 1:
		return bad(http.StatusBadRequest, textNoHTTP2)
	case !r.ProtoAtLeast(1, 1):
		return bad(http.StatusUpgradeRequired, "WebSockets need HTTP/1.1")
	case !hasToken(r.Header["Connection"], "upgrade"):
		return bad(http.StatusUpgradeRequired, "Connection header without upgrade")
	case !hasToken(r.Header["Upgrade"], "websocket"):
		return bad(http.StatusUpgradeRequired, "Upgrade header without websocket")
	case r.Header.Get("Sec-WebSocket-Version") != "13" || len(r.Header["Sec-Websocket-Version"]) > 1:
		return bad(http.StatusUpgradeRequired, "Sec-WebSocket-Version is not 13")
	}
	keys := r.Header["Sec-Websocket-Key"]
	if len(keys) != 1 {
		return bad(http.StatusBadRequest, "Sec-WebSocket-Key missing or repeated")
	}
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(key) != 16 {
		return bad(http.StatusBadRequest, "Sec-WebSocket-Key is not 16 bytes of base64")
	}
	return nil
}

// canHijack reports whether the connection can be taken from the HTTP server.
// Afterwards it is too late to say no: by then the client has read 101.
func canHijack(w http.ResponseWriter) bool { return implements[http.Hijacker](w) }

// implements reports whether w, or what is wrapped in it, has T's methods, as
// http.ResponseController looks for them.
func implements[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = inner.Unwrap()
	}
}

// hasDeadlines reports whether the time of an answer can be bounded.
func hasDeadlines(w http.ResponseWriter) bool {
	return !errors.Is(http.NewResponseController(w).SetWriteDeadline(time.Time{}), http.ErrNotSupported)
}

// hasToken reports whether a header that is a list has the token, in any case
// and on any of its lines (RFC 9110 section 5.6.1).
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for field := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(field), token) {
				return true
			}
		}
	}
	return false
}

// openWebSocket opens a connection, or says why not. The token is nil for a
// client that skipped negotiation.
func (e *Endpoint) openWebSocket(w http.ResponseWriter, r *http.Request, t *token) (Refusal, *StatusError) {
	if why, err := e.enter(); err != nil {
		return why, err
	}
	info := Info{Kind: WebSockets, Negotiated: t != nil}
	var until time.Time // zero: no token, no claim
	opened := false
	defer func() {
		if !opened { // a panic in Open included
			e.release(info.ID, until, false)
			e.leave()
		}
	}()
	if t == nil {
		info.ID = encodeID(newID())
	} else {
		if why, err := e.claim(r, t); err != nil {
			return why, err
		}
		info.ID, until = t.connID(), t.until
	}
	serve, err := e.opts.Open(r, info)
	if err != nil {
		return RefusedByOpen, asStatus(err, http.StatusInternalServerError)
	}
	s, err := e.upgrade(w, r, info.ID)
	if err != nil {
		return RefusedVanished, &StatusError{Code: http.StatusInternalServerError, Text: err.Error()}
	}
	opened = true
	e.accepted.Add(1)
	go e.run(s, serve, until) // until leave, which Wait waits for
	return 0, nil
}

// run is the reader of one connection from its first byte to its last.
func (e *Endpoint) run(s *socket, serve func(Conn), until time.Time) {
	defer e.leave()
	defer e.release(s.id, until, true)
	defer s.end()
	serve(s)
}

// claim makes the token the caller's for good, unless it has been somebody's.
func (e *Endpoint) claim(r *http.Request, t *token) (Refusal, *StatusError) {
	err := e.opts.Claims.Claim(r.Context(), t.connID(), t.until)
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, ErrTokenInUse):
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	case errors.Is(err, ErrTokenSpent):
		return RefusedSpentID, errUnknownID()
	default:
		return RefusedClaims, &StatusError{Code: http.StatusServiceUnavailable, RetryAfter: retryAfter}
	}
}

// readToken reads a token of these keys, whether it is alive or not, or that of
// a connection with a record.
func (e *Endpoint) readToken(id string) (t token, why Refusal, refused *StatusError) {
	t, err := parseToken(id, e.opts.Keys.Keys())
	if err == nil {
		return t, 0, nil
	}
	if t, ok := e.recallToken(id); ok {
		return t, 0, nil
	}
	if unavailable := e.available(); unavailable != nil { // the keys may be missing yet
		return t, RefusedUnavailable, unavailable
	}
	return t, RefusedUnknownID, errUnknownID()
}

// find looks for a token that is alive: in use here, or not yet expired. The
// record is nil if there is none.
func (e *Endpoint) find(r *http.Request, t *token) (rec *record, why Refusal, refused *StatusError) {
	rec = e.findRecord(t)
	if rec != nil || e.opts.Keys.Now().Before(t.until) || e.opts.Claims.InUse(t.connID()) {
		return rec, 0, nil
	}
	if fleet, ok := e.opts.Claims.(fleetClaims); ok && fleet.InUseElsewhere(r.Context(), t.connID()) {
		return nil, RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	return nil, RefusedExpiredID, errUnknownID()
}

func (e *Endpoint) release(id string, until time.Time, spent bool) {
	if !until.IsZero() {
		e.opts.Claims.Release(id, until, spent)
	}
}

// refuseConnect answers a CONNECT: the WebSocket of HTTP/2 (RFC 8441), should
// the server have announced it.
func (e *Endpoint) refuseConnect(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(":protocol") == "websocket" {
		e.warn(r, "transport: WebSocket over HTTP/2 refused: the server must not announce extended CONNECT (GODEBUG=http2xconnect=0)")
		e.refuse(w, r, RefusedUpgrade, &StatusError{Code: http.StatusBadRequest, Text: textNoHTTP2})
		return
	}
	w.Header().Set("Allow", allowedMethods(false))
	e.refuse(w, r, RefusedMethod, &StatusError{Code: http.StatusMethodNotAllowed})
}
