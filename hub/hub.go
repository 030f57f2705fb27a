package hub

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/switchboard-hub/switchboard/hub/dialect"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// A Hub serves the connections of one hub on this instance and relays messages
// to and from the other instances.
type Hub struct {
	// fixed once Run has begun
	opts         Options
	names        dialect.DotNet
	registry     *registry
	relay        *relay // nil without a backplane
	endpoint     *transport.Endpoint
	keys         transport.KeySource
	claims       *fleetClaims // nil without a backplane that has claims
	pings        [maxProtocols]*transport.Message
	methods      map[string]*Method // by the spelling given and by its lower case
	filters      []Filter
	connected    func(context.Context, *Caller) error
	disconnected func(context.Context, *Caller, error)

	stats       counters
	questions   questions
	queuedBytes atomic.Int64
	behind      atomic.Bool // some writer has a long queue

	invocations sync.Pool // *invocation
	replies     sync.Pool // *transport.Message
	batches     sync.Pool // *[writeBatch]*transport.Message
	scratch     sync.Pool // *[]byte

	// guarded by mu
	mu          sync.Mutex
	state       state
	handshaking map[transport.Conn]struct{} // not yet connections
	serving     sync.WaitGroup
	waiting     sync.WaitGroup // for serving, on behalf of Shutdown
	ready       chan struct{}  // closed once the standing channels are live
	over        chan struct{}  // closed when Run's context has ended
}

// A state is where a hub stands in its life; it only grows.
type state int

const (
	created state = iota
	running
	draining // Shutdown was called
	stopped
)

// New makes a hub. It serves nobody until Run.
func New(opts Options) (*Hub, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.Instance == "" {
		opts.Instance = uuid.NewString()
	}
	h := &Hub{
		opts:     opts,
		names:    dialect.DotNet{HubKey: opts.Name},
		registry: newRegistry(),
		methods:  make(map[string]*Method),
		ready:    make(chan struct{}),
		over:     make(chan struct{}),

		handshaking: make(map[transport.Conn]struct{}),
	}
	h.opts.Logger = opts.Logger.With(slog.String("hub", opts.Name))
	h.invocations.New = func() any { return &invocation{} }
	h.replies.New = h.makeReply
	h.batches.New = func() any { return &[writeBatch]*transport.Message{} }
	h.scratch.New = func() any { return new([]byte) }
	for i, p := range opts.Protocols {
		h.pings[i] = transport.EndMessage(p.AppendPing(transport.BeginMessage(16)), p.Binary())
	}
	if opts.Backplane != nil {
		h.relay = newRelay(h, opts.Backplane)
	}
	if h.keys, err = tokenKeys(opts); err != nil {
		return nil, err
	}
	if h.endpoint, err = h.newEndpoint(); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return h, nil
}

// Name is the hub key.
func (h *Hub) Name() string { return h.opts.Name }

// Instance is the name of this process.
func (h *Hub) Instance() string { return h.opts.Instance }

// Handle registers a method under its name on the wire, which clients may
// spell in any case. The rules decide, in order, who may call it. Handle,
// Use, OnConnected and OnDisconnected are for the time before Run; a name that
// is empty or taken is a mistake in the program and panics, as does Handle after
// Run has begun.
func (h *Hub) Handle(target string, m Method, rules ...Rule) {
	if err := validName("target", target); err != nil {
		panic("hub: Handle: " + err.Error())
	}
	if m.call == nil {
		panic("hub: Handle: the method of " + target + " is empty")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != created {
		panic("hub: Handle: " + target + " comes too late, Run has begun")
	}
	folded := strings.ToLower(target)
	if h.methods[folded] != nil {
		panic("hub: Handle: " + target + " is registered already")
	}
	m.target, m.rules = target, rules
	h.methods[folded] = &m
	h.methods[target] = &m
}

// Use adds a filter inside those that were added before.
func (h *Hub) Use(f Filter) { h.filters = append(h.filters, f) }

// OnConnected sets the callback that runs after the handshake and before any
// call of the connection; calls wait for it, broadcasts do not. An error ends
// the connection, and the client does not reconnect by itself.
func (h *Hub) OnConnected(f func(ctx context.Context, c *Caller) error) { h.connected = f }

// OnDisconnected sets the callback that runs once for every connection whose
// OnConnected succeeded, when it has ended and while methods may still be on
// their way out. cause is nil after a polite end by the client, else a
// *Disconnect, possibly wrapped. ctx is fresh and bounded.
func (h *Hub) OnDisconnected(f func(ctx context.Context, c *Caller, cause error)) {
	h.disconnected = f
}

// Clients names recipients from outside a method.
func (h *Hub) Clients() Clients { return Clients{h} }

// AddToGroup makes a connection, on whichever instance it is, a member of a
// group. When it has returned, every later send to the group from any instance
// reaches the connection. ErrConnectionNotFound: there is no such connection.
// ErrNoAnswer: its instance did not acknowledge within AckTimeout.
func (h *Hub) AddToGroup(ctx context.Context, connectionID, group string) error {
	return h.changeGroup(ctx, dialect.Add, connectionID, group)
}

// RemoveFromGroup ends the membership of a connection, on whichever instance
// it is. When it has returned, nothing that is sent to the group reaches it.
// Errors are those of AddToGroup; not being a member is none.
func (h *Hub) RemoveFromGroup(ctx context.Context, connectionID, group string) error {
	return h.changeGroup(ctx, dialect.Remove, connectionID, group)
}

func (h *Hub) changeGroup(ctx context.Context, action dialect.Action, connectionID, group string) error {
	if err := validName("group", group); err != nil {
		return err
	}
	if err := validName("connection", connectionID); err != nil {
		return err
	}
	c := h.registry.conn(connectionID)
	switch {
	case c == nil:
		return h.relay.changeRemote(ctx, action, connectionID, group)
	case action == dialect.Add:
		return c.join(ctx, group)
	}
	c.leave(group)
	return nil
}

// Ready is closed once the hub runs and hears the other instances.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Run serves until ctx ends; then it ends every connection at once, and
// returns when everything that the hub started has ended. For a polite end
// call Shutdown first. A hub runs once.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.state != created {
		h.mu.Unlock()
		return fmt.Errorf("hub: Run was called before: %w", ErrNotRunning)
	}
	h.state = running
	h.endpoint.Refuse(nil) // under mu, so that a Shutdown comes after it
	h.mu.Unlock()

	var own sync.WaitGroup
	own.Go(func() { h.listen(ctx) })
	own.Go(func() { h.keepAlive(ctx) })
	<-ctx.Done()

	close(h.over)
	h.refuse(stopped)
	h.dropAfter(farewell)
	h.serving.Wait()
	h.waiting.Wait()
	own.Wait()
	h.relay.stop()
	err := h.endpoint.Wait(context.Background())
	h.endpoint.Close()
	h.claims.wait()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// farewell is how long connections get to read why they end when the hub's
// context ends without Shutdown.
const farewell = 250 * time.Millisecond

// Shutdown refuses new connections, tells the clients of the others that they
// may reconnect elsewhere, and waits until all have gone or ctx ends; what is
// left then is dropped, and ctx's error returned, without waiting for methods
// that do not stop. It also waits for the requests that pass through here to
// other instances, a poll for up to 15 s. Run goes on until its own context
// ends.
func (h *Hub) Shutdown(ctx context.Context) error {
	h.refuse(draining)
	gone := make(chan struct{})
	h.waiting.Go(func() {
		defer close(gone)
		h.serving.Wait()
	})
	select {
	case <-gone:
	case <-ctx.Done():
		h.dropAll()
		return context.Cause(ctx)
	}
	return h.endpoint.WaitPassing(ctx)
}

// refuse takes no further connections and ends those there are. A client in
// its handshake has nothing to be told: it is dropped.
func (h *Hub) refuse(next state) {
	h.mu.Lock()
	h.state = max(h.state, next)
	early := slices.Collect(maps.Keys(h.handshaking))
	h.mu.Unlock()
	h.endpoint.Refuse(refusedStopped())
	for _, t := range early {
		t.CloseNow()
	}
	for _, c := range h.registry.close() {
		c.end(ErrShutdown)
	}
}

// dropAfter drops what is still connected after d.
func (h *Hub) dropAfter(d time.Duration) {
	gone := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			h.dropAll()
		case <-gone:
		}
	})
	h.serving.Wait()
	close(gone)
	wait.Wait()
}

func (h *Hub) dropAll() {
	for _, c := range h.registry.all.snapshot(nil) {
		c.transport.CloseNow()
	}
}

// listen registers the standing channels and closes ready once they are live.
func (h *Hub) listen(ctx context.Context) {
	if h.relay != nil && !h.relay.listen(ctx) {
		return
	}
	if shared, ok := h.opts.Backplane.(sharedKeys); ok && h.opts.TokenKeys == nil {
		// By now it can be had: tokens are good at the other instances.
		bounded, cancel := context.WithTimeout(ctx, DefaultBackplaneTimeout)
		_, err := shared.SharedKey(bounded, tokenKeyName)
		cancel()
		if err != nil {
			h.opts.Logger.Warn("shared token key", slog.Any("err", err))
		}
	}
	close(h.ready)
}

// method finds a method by a target in any case.
func (h *Hub) method(target []byte) *Method {
	if m := h.methods[string(target)]; m != nil {
		return m
	}
	if len(target) > maxNameBytes {
		return nil
	}
	return h.methods[strings.ToLower(string(target))]
}

func (h *Hub) recycle(in *invocation) {
	in.ctx, in.beside, in.refusal = nil, false, ""
	clear(in.uploads) // of a call that never ran
	in.uploads = in.uploads[:0]
	if in.size() > replyKeep {
		in.record, in.message = nil, protocol.Message{}
	}
	h.invocations.Put(in)
}

// protocolFor finds an enabled protocol by its name in any case.
func (h *Hub) protocolFor(name string) (int, protocol.Protocol) {
	for i, p := range h.opts.Protocols {
		if strings.EqualFold(p.Name(), name) {
			return i, p
		}
	}
	return 0, nil
}

// runConnected runs OnConnected through the filters; a panic is an error.
func (h *Hub) runConnected(c *conn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			h.opts.Logger.Error("OnConnected panicked", slog.String("conn", c.id), slog.Any("err", p))
		}
	}()
	return connectedThrough(c.ctx, h.filters, &c.caller, h.connected)
}

// disconnectedTime bounds OnDisconnected's context.
const disconnectedTime = 30 * time.Second

func (h *Hub) runDisconnected(c *conn, cause error) {
	defer func() {
		if p := recover(); p != nil {
			h.opts.Logger.Error("OnDisconnected panicked", slog.String("conn", c.id), slog.Any("err", p))
		}
	}()
	if disconnectOf(cause) == ErrClosedByClient {
		cause = nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), disconnectedTime)
	defer cancel()
	disconnectedThrough(ctx, h.filters, &c.caller, cause, h.disconnected)
}
