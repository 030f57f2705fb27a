package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport/internal/forward"
)

// ownerRandom is the length of the part of an owner's name that is an
// endpoint's own, and the sign in front of it.
const ownerRandom = 1 + 22

// ownerName makes a name that no other endpoint has: two that are called the
// same, or one after the other, must not answer for each other.
func ownerName(instance string) string {
	return instance[:min(len(instance), maxTokenText-ownerRandom)] + "#" + encodeID(newID())
}

// newForwarder makes what sends requests to the owners of their connections.
func newForwarder(keys KeySource, logger *slog.Logger) *forward.Forwarder {
	return forward.New(forward.Options{
		Keys: func() (sign [32]byte, accept [][32]byte, ok bool) {
			all := keys.Keys()
			if len(all) == 0 {
				return sign, nil, false
			}
			accept = make([][32]byte, len(all))
			for i := range all {
				accept[i] = all[i]
			}
			return accept[0], accept, true
		},
		Now:    keys.Now,
		Logger: logger,
	})
}

// forwardedPoll is when a poll without data that came through another instance
// is answered at the latest: that one must wait for it before it can go.
const forwardedPoll = 15 * time.Second

// forwardedKey marks the context of a request that another instance sent.
type forwardedKey struct{}

// recognise looks whether another instance has sent the request. It answers one
// that claims so without proof, and returns nil then.
func (e *Endpoint) recognise(w http.ResponseWriter, r *http.Request) (_ *http.Request, forwarded bool) {
	out, forwarded, err := e.forwarder.Accept(r)
	switch {
	case err != nil:
		e.refuse(w, r, RefusedForward, &StatusError{Code: http.StatusForbidden})
		return nil, false
	case forwarded:
		out = out.WithContext(context.WithValue(out.Context(), forwardedKey{}, true))
	}
	return out, forwarded
}

// isElsewhere reports whether a request is for the owner of its token to
// answer, and that is another endpoint. A plain WebSocket can be anywhere.
func (e *Endpoint) isElsewhere(t *token, kind Kind) bool {
	return t.owner != e.owner && (kind != WebSockets || t.flags&flagReconnect != 0)
}

// passOn sends a request to the owner of its token.
func (e *Endpoint) passOn(w http.ResponseWriter, r *http.Request, t *token) (Refusal, *StatusError) {
	if t.address == "" || r.Context().Value(forwardedKey{}) != nil {
		return RefusedUnknownID, errUnknownID()
	}
	if r.Header.Get("Upgrade") == "" && requestedKind(r) != ServerSentEvents {
		e.passing.add()
		defer e.passing.done()
	}
	if e.available() != nil && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // the next one is for another instance
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // of the HTTP server: the owner decides how long it takes
	if r.Method == http.MethodGet {
		_ = control.SetReadDeadline(time.Time{})
	}
	switch err := e.forwarder.Forward(w, r, t.address); {
	case err == nil:
		return 0, nil
	case errors.Is(err, forward.ErrUnreachable):
		return RefusedOwner, errUnknownID()
	default:
		return RefusedForward, &StatusError{Code: http.StatusBadRequest}
	}
}

// WaitPassing blocks until no poll, POST or DELETE passes through here on its way
// to another instance, or until ctx ends. Those end by themselves, within 15 s
// unless their connection takes no more data; event streams and WebSockets do not,
// and are not waited for. Call it after Refuse, by which clients are told to send
// their next request elsewhere.
func (e *Endpoint) WaitPassing(ctx context.Context) error { return e.passing.wait(ctx) }

// Close ends what passes through here on its way to other instances. It is for
// the end of the program, after Wait: requests for connections of other
// instances are answered 404 from then on.
func (e *Endpoint) Close() { e.forwarder.Close() }
