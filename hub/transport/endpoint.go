package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport/internal/forward"
)

// An Endpoint is a hub's side of HTTP: it answers negotiate, checks who comes
// and opens connections. Make one with New.
type Endpoint struct {
	// fixed
	opts    Options
	origins originList
	log     *slog.Logger
	started time.Time
	owner   string // in the tokens made here

	forwardedPoll time.Duration

	forwarder  *forward.Forwarder
	advertised atomic.Pointer[string]

	records records

	parsers sync.Pool // *parser
	buffers sync.Pool // *[readBuffer]byte
	pieces  sync.Pool // *[pieceSize]byte
	small   sync.Pool // *[smallBatch]byte
	batches sync.Pool // *[largeBatch]byte

	negotiated atomic.Uint64
	accepted   atomic.Uint64
	refused    [refusals]atomic.Uint64
	warned     atomic.Int64 // when, since started; 0 is never

	open    tally // connections
	passing tally // requests on their way to other instances, but those without an end

	mu      sync.Mutex
	refusal *StatusError // guarded by mu
}

// New returns an Endpoint, or an error that names the wrong option.
func New(opts Options) (*Endpoint, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	origins, err := parseOrigins(opts.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	if opts.CookieCredentials && origins.any {
		return nil, errors.New(`transport: Options.AllowedOrigins: "*" lets every page use the cookies that CookieCredentials believes: list the origins`)
	}
	e := &Endpoint{
		opts: opts, origins: origins, log: opts.Logger, started: time.Now(),
		owner: ownerName(opts.Instance), forwarder: newForwarder(opts.Keys, opts.Logger),
		forwardedPoll: forwardedPoll,
	}
	e.advertised.Store(&opts.Advertise)
	e.buffers.New = func() any { return new([readBuffer]byte) }
	e.pieces.New = func() any { return new([pieceSize]byte) }
	e.small.New = func() any { return new([smallBatch]byte) }
	e.batches.New = func() any { return new([largeBatch]byte) }
	return e, nil
}

// ServeHTTP answers the requests of one hub. Mount it at the hub's path and at
// that path plus "/negotiate"; the hub's own path may not end so.
//
// It returns when the request is answered, which an event stream is at its end.
// Any other connection that it opened lives on in a goroutine of its own until
// its serve returns (see Options.Open and Wait): the memory of a WebSocket's
// handshake is freed only on return. It must see the Host and the request line
// that the client sent, or requests of other instances are not recognised.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	negotiate := isNegotiate(r.URL.Path)
	r, forwarded := e.recognise(w, r)
	if r == nil || !forwarded && !e.admitOrigin(w, r, negotiate) {
		return
	}
	if e.opts.Authorize != nil {
		ctx, err := e.opts.Authorize(r)
		if err != nil {
			e.refuse(w, r, RefusedUnauthorized, asStatus(err, http.StatusUnauthorized))
			return
		}
		if ctx != nil {
			r = r.WithContext(ctx)
		}
	}
	switch {
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allowedMethods(negotiate))
		w.WriteHeader(http.StatusNoContent)
	case negotiate:
		e.negotiate(w, r)
	case r.Method == http.MethodGet:
		e.get(w, r)
	case r.Method == http.MethodPost || r.Method == http.MethodDelete:
		e.serveData(w, r)
	case r.Method == http.MethodConnect:
		e.refuseConnect(w, r)
	default:
		w.Header().Set("Allow", allowedMethods(negotiate))
		e.refuse(w, r, RefusedMethod, &StatusError{Code: http.StatusMethodNotAllowed})
	}
}

// Advertise changes Options.Advertise for the tokens that are made from now on:
// an address is often known only once the listener is.
func (e *Endpoint) Advertise(address string) error {
	if len(address) > maxTokenText {
		return fmt.Errorf("transport: advertise: %d bytes, at most %d", len(address), maxTokenText)
	}
	e.advertised.Store(&address)
	return nil
}

// Refuse makes the endpoint answer every new negotiate and every new
// connection with err until it is called again with nil. Connections that are
// open stay. Whoever was let in before Refuse returned is counted by Wait.
func (e *Endpoint) Refuse(err *StatusError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusal = err
}

// Wait blocks until no connection is open, that is until every serve has
// returned, or until ctx ends. It ends no connection and refuses none: see
// Refuse.
func (e *Endpoint) Wait(ctx context.Context) error { return e.open.wait(ctx) }

// Stats are counts since New, and how many connections there are now.
type Stats struct {
	Open       int                // connections now
	Negotiated uint64             // negotiate requests that got a connection id
	Accepted   uint64             // connections opened
	Refused    map[Refusal]uint64 // every reason, those that never happened included
}

// Stats reads the counters.
func (e *Endpoint) Stats() Stats {
	s := Stats{
		Negotiated: e.negotiated.Load(),
		Accepted:   e.accepted.Load(),
		Refused:    make(map[Refusal]uint64, refusals),
	}
	for i := range e.refused {
		s.Refused[Refusal(i)] = e.refused[i].Load()
	}
	s.Open = e.open.count()
	return s
}

// enter counts a connection that is about to open, unless it may not.
func (e *Endpoint) enter() (Refusal, *StatusError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusal != nil {
		return RefusedUnavailable, e.refusal
	}
	if limit := e.opts.MaxConnections; limit > 0 && e.open.count() >= limit {
		return RefusedFull, &StatusError{Code: http.StatusServiceUnavailable, Text: "Too many connections", RetryAfter: retryAfter}
	}
	e.open.add()
	return 0, nil
}

// leave undoes enter.
func (e *Endpoint) leave() { e.open.done() }

// available is what Refuse has said last.
func (e *Endpoint) available() *StatusError {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refusal
}

// retryAfter is when to come back after a refusal for want of room.
const retryAfter = 5 * time.Second

// asStatus returns the *StatusError in err, or an empty one with the code.
func asStatus(err error, code int) *StatusError {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status
	}
	return &StatusError{Code: code}
}

// isNegotiate reports whether a path is a hub's negotiate path, spelled in
// either case and with or without a slash behind.
func isNegotiate(path string) bool {
	const suffix = "/negotiate"
	path = strings.TrimSuffix(path, "/")
	return len(path) >= len(suffix) && strings.EqualFold(path[len(path)-len(suffix):], suffix)
}

func allowedMethods(negotiate bool) string {
	if negotiate {
		return "OPTIONS, POST"
	}
	return "DELETE, GET, OPTIONS, POST"
}
