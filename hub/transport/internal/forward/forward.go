package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrUnreachable says that the owner did not get the request. Nothing was
	// written to the ResponseWriter; the client must start anew (404).
	ErrUnreachable = errors.New("forward: owner unreachable")

	// ErrUnanswered says that the owner may have got the request, and that no
	// answer came. It is an ErrUnreachable, too, as far as errors.Is and the
	// client are concerned.
	ErrUnanswered = fmt.Errorf("%w: lost before it answered", ErrUnreachable)

	// ErrRequest says that the request cannot be forwarded, whoever the owner
	// is: its request line or Host is not one for this server, or it was
	// forwarded already. Nothing was written (400).
	ErrRequest = errors.New("forward: not a request to forward")

	// ErrRefused says that a request claims to come from another instance and
	// does not prove it (403).
	ErrRefused = errors.New("forward: not signed by an instance")
)

// warnInterval is the least time between two lines at Warn.
const warnInterval = time.Minute

// Options configure a Forwarder.
type Options struct {
	// Keys returns the key that signs and the keys of which any may have
	// signed, usually the current and the previous one. Without keys (ok is
	// false, or Keys is nil) nothing is forwarded or accepted. It is called
	// by many goroutines at once and must not block.
	Keys func() (sign [32]byte, accept [][32]byte, ok bool)

	// Now is the clock that goes with the keys. Nil means time.Now.
	Now func() time.Time

	// TLSClientConfig is used towards owners whose address begins with
	// "https://". Nil means Go's defaults, with the name from the address.
	TLSClientConfig *tls.Config

	// Logger receives one line for each request that failed at its owner: at
	// Debug, and at Warn not more than once a minute. Nil discards it.
	Logger *slog.Logger
}

// Stats are counts since New.
type Stats struct {
	Forwarded   uint64 // requests that their owner has answered, whatever the answer
	Unreachable uint64 // requests that their owner did not get
	Unanswered  uint64 // requests whose owner was lost before it answered
	Aborted     uint64 // answers and WebSockets that broke off
	Accepted    uint64 // requests that came from another instance
	Refused     uint64 // requests that claimed to, and did not prove it
}

// A Forwarder sends requests to other instances and recognises theirs. Make one
// with New. Its methods may be called by many goroutines at once.
type Forwarder struct {
	// fixed
	keys     func() (sign [32]byte, accept [][32]byte, ok bool)
	now      func() time.Time
	log      *slog.Logger
	started  time.Time
	secure   *tls.Config
	patience time.Duration // clientPatience
	linger   time.Duration // lingerTimeout
	kept     *http.Transport
	fresh    *http.Transport // a new connection for each request
	buffers  sync.Pool       // *[bufferSize]byte
	seen     nonces

	forwarded   atomic.Uint64
	unreachable atomic.Uint64
	unanswered  atomic.Uint64
	aborted     atomic.Uint64
	accepted    atomic.Uint64
	refused     atomic.Uint64
	warned      atomic.Int64 // when, since started; 0 is never

	mu      sync.Mutex
	closed  bool                 // guarded by mu
	tunnels map[*tunnel]struct{} // guarded by mu
	running sync.WaitGroup       // the tunnels
}

// New returns a Forwarder. Close it.
func New(o Options) *Forwarder {
	f := &Forwarder{
		keys: o.Keys, now: o.Now, log: o.Logger, started: time.Now(),
		patience: clientPatience, linger: lingerTimeout,
		secure: &tls.Config{}, tunnels: map[*tunnel]struct{}{},
	}
	if f.keys == nil {
		f.keys = func() (sign [32]byte, accept [][32]byte, ok bool) { return sign, nil, false }
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if o.TLSClientConfig != nil {
		f.secure = o.TLSClientConfig.Clone()
	}
	f.secure.NextProtos = []string{"http/1.1"}
	f.buffers.New = func() any { return new([bufferSize]byte) }
	f.kept, f.fresh = f.newTransport(true), f.newTransport(false)
	return f
}

// Close closes idle connections and ends the WebSockets that pass through here,
// because nobody else can, and returns when those have ended. Other requests
// under way go on; new ones are ErrUnreachable.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closed = true
	open := make([]*tunnel, 0, len(f.tunnels))
	for t := range f.tunnels {
		open = append(open, t)
	}
	f.mu.Unlock()
	for _, t := range open {
		t.close()
	}
	f.running.Wait()
	f.kept.CloseIdleConnections()
}

// Stats reads the counters.
func (f *Forwarder) Stats() Stats {
	return Stats{
		Forwarded:   f.forwarded.Load(),
		Unreachable: f.unreachable.Load(),
		Unanswered:  f.unanswered.Load(),
		Aborted:     f.aborted.Load(),
		Accepted:    f.accepted.Load(),
		Refused:     f.refused.Load(),
	}
}

// Forward sends the request to the owner's HTTP listener and passes the answer
// on. The address is "host:port", "http://host:port" or "https://host:port".
// Path and query are those of r.RequestURI, which must be a path.
//
// An error means that nothing was written to w, and that the caller has to
// answer: ErrUnreachable, ErrUnanswered (which is an ErrUnreachable) or
// ErrRequest. The causes of the first two are logged, unless it is the client
// that has left. Of w's headers only Connection may have been set, to close the
// connection of a client in the middle of its body.
//
// The owner's headers take the place of those of the same name in w, except
// that Vary and Set-Cookie are united.
//
// An answer that breaks off after its head went out makes Forward panic with
// http.ErrAbortHandler, the only way to tell a client so on every version of
// HTTP. When a WebSocket is forwarded w is hijacked, and Forward returns nil
// when it is over.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, address string) error {
	if err := forwardable(r); err != nil {
		return err
	}
	scheme, host, err := parseAddress(address)
	if err == nil {
		err = f.forward(w, r, scheme, host)
	} else {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err != nil {
		f.failed(r, address, err)
	}
	return err
}

func (f *Forwarder) forward(w http.ResponseWriter, r *http.Request, scheme, host string) error {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return fmt.Errorf("%w: closed", ErrUnreachable)
	}
	sign, _, ok := f.keys()
	if !ok {
		return fmt.Errorf("%w: no key to sign with", ErrUnreachable)
	}
	e := &errand{w: w, r: r, scheme: scheme, host: host, key: sign, now: f.now()}
	if isWebSocket(r) {
		return f.upgrade(e)
	}
	return f.exchange(e)
}

// failed counts and logs a request that the caller has to answer. Request lines
// stay out of the log: they have tokens in them.
func (f *Forwarder) failed(r *http.Request, address string, err error) {
	if errors.Is(err, errLeft) {
		return // which says nothing about the owner
	}
	text := "forward: owner unreachable"
	if errors.Is(err, ErrUnanswered) {
		f.unanswered.Add(1)
		text = "forward: owner lost before it answered"
	} else {
		f.unreachable.Add(1)
	}
	f.report(r.Context(), text, slog.String("method", r.Method), slog.String("address", address), slog.Any("err", err))
}

// report logs at Debug, and once per warnInterval at Warn.
func (f *Forwarder) report(ctx context.Context, text string, attrs ...slog.Attr) {
	level := slog.LevelDebug
	last, now := f.warned.Load(), int64(time.Since(f.started))
	if (last == 0 || now-last >= int64(warnInterval)) && f.warned.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	f.log.LogAttrs(ctx, level, text, attrs...)
}

// forwardedKey marks the context of a request that Accept has let in.
type forwardedKey struct{}
