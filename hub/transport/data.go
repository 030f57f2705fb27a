package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Sizes of the buffers for the body of a POST, in bytes.
const (
	firstRead  = 512
	streamRead = 16 << 10
)

// errAborted is what Receive returns when a client has aborted a body of which
// it was given a part already.
var errAborted = errors.New("transport: the client aborted a POST half way")

// serveData answers a POST or a DELETE.
func (e *Endpoint) serveData(w http.ResponseWriter, r *http.Request) {
	if why, refused := e.takeData(w, r); refused != nil {
		e.refuse(w, r, why, refused)
	}
}

func (e *Endpoint) takeData(w http.ResponseWriter, r *http.Request) (Refusal, *StatusError) {
	id, _ := queryValue(r, "id")
	if id == "" {
		return RefusedNoID, &StatusError{Code: http.StatusBadRequest, Text: textNoID}
	}
	t, why, refused := e.readToken(id)
	if refused != nil {
		return why, refused
	}
	if e.isElsewhere(&t, LongPolling) {
		return e.passOn(w, r, &t)
	}
	rec, why, refused := e.find(r, &t)
	if why == RefusedIDInUse { // a WebSocket of another instance
		return RefusedTransport, refuseData(r)
	}
	if refused == nil {
		rec, why, refused = e.dataRecord(r, &t, rec)
	}
	if refused == nil {
		why, refused = e.own(r, rec)
	}
	if refused == nil {
		why, refused = e.refreshed(r, rec)
	}
	if refused != nil {
		return why, refused
	}
	if !rec.join() {
		return RefusedSpentID, errUnknownID()
	}
	defer rec.quit()
	if r.Method == http.MethodPost {
		return e.post(w, r, rec)
	}
	rec.delete()
	writeEmpty(w, http.StatusAccepted)
	return 0, nil
}

// dataRecord returns the record that a POST or DELETE is for. A POST may make
// one.
func (e *Endpoint) dataRecord(r *http.Request, t *token, rec *record) (*record, Refusal, *StatusError) {
	if rec == nil && e.opts.Claims.InUse(t.connID()) {
		return nil, RefusedTransport, refuseData(r)
	}
	if rec == nil {
		if unavailable := e.available(); unavailable != nil {
			return nil, RefusedUnavailable, unavailable
		}
		var why Refusal
		var refused *StatusError
		rec, why, refused = e.acquire(r, t)
		switch {
		case why == RefusedIDInUse: // a WebSocket of another instance
			return nil, RefusedTransport, refuseData(r)
		case refused != nil:
			return nil, why, refused
		}
	}
	phase, kind := rec.state()
	switch {
	case phase == over:
		return nil, RefusedSpentID, errUnknownID()
	case kind == WebSockets || r.Method == http.MethodDelete && kind != LongPolling:
		if phase == pending && !rec.byPost { // made to ask who has the token
			rec.discard(pending)
		}
		return nil, RefusedTransport, refuseData(r)
	}
	return rec, 0, nil
}

// refuseData answers a POST or DELETE that its connection does not take.
func refuseData(r *http.Request) *StatusError {
	if r.Method == http.MethodPost {
		return &StatusError{Code: http.StatusMethodNotAllowed, Text: textNoPost}
	}
	return &StatusError{Code: http.StatusBadRequest, Text: textNoDelete}
}

// refreshed asks Options.Refreshed about a request of an open connection.
func (e *Endpoint) refreshed(r *http.Request, rec *record) (Refusal, *StatusError) {
	if e.opts.Refreshed == nil {
		return 0, nil
	}
	if phase, _ := rec.state(); phase != attached {
		return 0, nil
	}
	if err := e.opts.Refreshed(r, rec.id); err != nil {
		return RefusedUnauthorized, asStatus(err, http.StatusUnauthorized)
	}
	return 0, nil
}

// post puts the body of a POST into the connection's stream and answers when
// it is there. POSTs of one connection wait for each other.
func (e *Endpoint) post(w http.ResponseWriter, r *http.Request, rec *record) (Refusal, *StatusError) {
	b := &rec.inbox
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // of the HTTP server: it may have to wait for room
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-b.over:
		return RefusedSpentID, errUnknownID()
	case <-r.Context().Done():
		return RefusedBody, &StatusError{Code: http.StatusBadRequest}
	}
	var cut atomic.Bool
	err := b.read(func() {
		cut.Store(true)
		_ = control.SetReadDeadline(time.Unix(1, 0))
	}, func() error {
		return rec.copyBody(r.Context(), r.Body, r.ContentLength)
	})
	if cut.Load() && r.ProtoMajor == 1 {
		// The HTTP server may have met the deadline between two requests,
		// and then cancels all that follow on this network connection.
		w.Header().Set("Connection", "close")
	}
	switch {
	case err == nil:
		writeEmpty(w, http.StatusOK)
		return 0, nil
	case errors.Is(err, errBacklog):
		return RefusedFull, &StatusError{Code: http.StatusServiceUnavailable, Text: "Too many bytes before the connection", RetryAfter: retryAfter}
	case b.ended() && !errors.Is(err, errAborted):
		return RefusedSpentID, errUnknownID()
	default:
		return RefusedBody, &StatusError{Code: http.StatusBadRequest}
	}
}

// copyBody puts a body into the inbox: a small one as a whole or not at all, a
// larger one piece by piece. An error in the middle of that ends the
// connection, whose stream is broken.
func (rec *record) copyBody(ctx context.Context, body io.Reader, length int64) error {
	size := firstRead
	if length > 0 {
		size = int(min(length, pieceSize)) // what is announced need not come
	}
	piece, more, err := readUpTo(body, make([]byte, 0, size+1), maxBody)
	if err != nil {
		return err
	}
	if !rec.reserve(len(piece)) {
		return errBacklog
	}
	if len(piece) > 0 {
		if err := rec.inbox.put(ctx, piece); err != nil || !more {
			return err
		}
	}
	for more {
		if piece, more, err = readUpTo(body, make([]byte, 0, streamRead), streamRead); err == nil && len(piece) > 0 {
			err = rec.inbox.put(ctx, piece)
		}
		if err != nil {
			if rec.inbox.end(errAborted) {
				err = errAborted
			}
			return err
		}
	}
	return nil
}

// readUpTo fills buf, and grows it up to limit, until the end of r. It reports
// whether there may be more.
func readUpTo(r io.Reader, buf []byte, limit int) (_ []byte, more bool, err error) {
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= limit {
				return buf, true, nil
			}
			grown := make([]byte, len(buf), min(2*cap(buf), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, len(buf) > limit, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// writeEmpty answers without a body.
func writeEmpty(w http.ResponseWriter, code int) {
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	if code != http.StatusNoContent { // RFC 9110 section 8.6
		h.Set("Content-Length", "0")
	}
	w.WriteHeader(code)
}
