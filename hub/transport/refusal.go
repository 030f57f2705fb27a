package transport

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// A Refusal is a reason for which a request was refused: a closed list, fit to
// label a metric.
type Refusal uint8

// The reasons.
const (
	RefusedMethod       Refusal = iota // 405
	RefusedOrigin                      // 403: a foreign page
	RefusedUnauthorized                // what Authorize said
	RefusedUnavailable                 // what Refuse said: starting or draining
	RefusedFull                        // 503: MaxConnections
	RefusedVersion                     // negotiate version that does not exist
	RefusedNoID                        // 400: no connection id where one is needed
	RefusedUnknownID                   // 404: not a token of these keys
	RefusedExpiredID                   // 404: came too late
	RefusedSpentID                     // 404: the token's connection is over
	RefusedIDInUse                     // 409: the token's connection is alive
	RefusedClaims                      // 503: no telling whether the token was used
	RefusedTransport                   // 404, 400, 405: not this way
	RefusedUpgrade                     // 400, 426: not a WebSocket handshake
	RefusedByOpen                      // what Open said
	RefusedVanished                    // the client had gone by the time of the upgrade
	RefusedBody                        // 400: the client aborted the body of a POST
	RefusedOwner                       // 404: the instance that owns the connection is out of reach
	RefusedForward                     // 403, 400: not from another instance, or not fit for one

	refusals = iota // how many there are
)

// String returns the reason as a metric label.
func (r Refusal) String() string {
	names := [refusals]string{
		RefusedMethod:       "method",
		RefusedOrigin:       "origin",
		RefusedUnauthorized: "unauthorized",
		RefusedUnavailable:  "unavailable",
		RefusedFull:         "full",
		RefusedVersion:      "version",
		RefusedNoID:         "no_id",
		RefusedUnknownID:    "unknown_id",
		RefusedExpiredID:    "expired_id",
		RefusedSpentID:      "spent_id",
		RefusedIDInUse:      "id_in_use",
		RefusedClaims:       "claims",
		RefusedTransport:    "transport",
		RefusedUpgrade:      "upgrade",
		RefusedByOpen:       "open",
		RefusedVanished:     "vanished",
		RefusedBody:         "body",
		RefusedOwner:        "owner",
		RefusedForward:      "forward",
	}
	if r >= refusals {
		return "unknown"
	}
	return names[r]
}

// warnEvery is the least time between two warnings of one endpoint: whoever
// causes them may be hostile, or a whole fleet behind a wrong proxy.
const warnEvery = time.Minute

// refuse answers a request that goes no further.
func (e *Endpoint) refuse(w http.ResponseWriter, r *http.Request, why Refusal, err *StatusError) {
	e.count(r, why, err)
	writeStatus(w, err)
}

func (e *Endpoint) count(r *http.Request, why Refusal, err *StatusError) {
	e.refused[why].Add(1)
	e.log.LogAttrs(r.Context(), slog.LevelDebug, "transport: request refused",
		slog.String("reason", why.String()), slog.Int("status", err.Code), slog.String("text", err.Text),
		slog.String("method", r.Method), slog.String("remote", r.RemoteAddr))
}

// warn says what an operator may have to mend, now and then.
func (e *Endpoint) warn(r *http.Request, text string) {
	now := time.Since(e.started)
	last := e.warned.Load()
	if last != 0 && now-time.Duration(last) < warnEvery || !e.warned.CompareAndSwap(last, max(1, int64(now))) {
		return
	}
	e.log.LogAttrs(r.Context(), slog.LevelWarn, text,
		slog.String("method", r.Method), slog.String("proto", r.Proto), slog.String("host", r.Host), slog.String("remote", r.RemoteAddr))
}

// writeStatus answers with a status and a text of exactly the given bytes.
func writeStatus(w http.ResponseWriter, err *StatusError) {
	code := err.Code
	if code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	h := w.Header()
	if code == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if err.RetryAfter > 0 {
		seconds := int64((err.RetryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if err.Text != "" {
		h.Set("Content-Type", "text/plain")
		h.Set("X-Content-Type-Options", "nosniff")
	}
	h.Set("Content-Length", strconv.Itoa(len(err.Text)))
	w.WriteHeader(code)
	_, _ = w.Write([]byte(err.Text)) // the client may have gone
}
