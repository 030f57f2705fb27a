package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
)

// A State is what a client is doing.
type State int

// The states, as the official clients name them.
const (
	Disconnected State = iota
	Connecting
	Connected
	Reconnecting
	Disconnecting
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Connecting:
		return "Connecting"
	case Connected:
		return "Connected"
	case Reconnecting:
		return "Reconnecting"
	case Disconnecting:
		return "Disconnecting"
	}
	return "Disconnected"
}

// A Client is one connection to a hub, and its successors after reconnects.
// All methods may be called by many goroutines at once.
type Client struct {
	opts    Options
	base    *url.URL
	ownHTTP bool

	// Guarded by mu. Slices are replaced, never changed.
	mu           sync.Mutex
	state        State
	life         *life    // from Start to the end
	session      *session // while Connected
	handlers     map[string][]*handler
	every        []*func(string, Args)
	reconnecting []func(error)
	reconnected  []func(string)
	closed       []func(error)
}

// A life is the time between a Start and the end that follows.
type life struct {
	ctx   context.Context // ends with Stop
	stop  context.CancelFunc
	in    *inbox
	hurry chan struct{} // closed when Stop waits no longer
	once  sync.Once     // closes hurry
	over  chan struct{} // closed when all goroutines have returned

	uploads sync.WaitGroup // goroutines that run the sequences of uploads

	// Guarded by mu.
	mu     sync.Mutex
	closed bool // no upload may start
}

// newLife makes a life that ends with stop, whatever becomes of ctx.
func newLife(ctx context.Context, queue int) *life {
	l := &life{in: newInbox(queue), hurry: make(chan struct{}), over: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// spawn runs f on a goroutine that join waits for, unless join was called.
func (l *life) spawn(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.uploads.Go(f)
	}
}

// join waits for the uploads.
func (l *life) join() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.uploads.Wait()
}

// New checks the options and makes a client, which does nothing until Start.
func New(opts Options) (*Client, error) {
	checked, base, err := opts.check()
	if err != nil {
		return nil, err
	}
	return &Client{
		opts:     checked,
		base:     base,
		ownHTTP:  opts.HTTPClient == nil,
		handlers: make(map[string][]*handler),
	}, nil
}

// State returns what the client is doing.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// ConnectionID returns the id under which the hub knows the connection. It is
// empty while there is none and with Options.SkipNegotiation.
func (c *Client) ConnectionID() string {
	if s := c.current(); s != nil {
		return s.connectionID
	}
	return ""
}

// Transport returns what carries the connection. It is empty while there is
// none.
func (c *Client) Transport() Transport {
	if s := c.current(); s != nil {
		return s.door.transport
	}
	return ""
}

// current returns the session, or nil if the client is not connected.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// OnReconnecting registers a callback for the loss of a connection that the
// policy wants back. err is nil if the server closed it normally.
func (c *Client) OnReconnecting(h func(err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconnecting = append(slices.Clone(c.reconnecting), h)
}

// OnReconnected registers a callback for the new connection after a loss. It
// runs before the handlers of anything that arrives on it.
func (c *Client) OnReconnected(h func(connectionID string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconnected = append(slices.Clone(c.reconnected), h)
}

// OnClosed registers a callback for the end: of the connection when nothing
// follows, or by Stop. It runs once for each Start that succeeded, after the
// handlers of everything that was queued for them. err is nil after Stop and after a normal end by the server; it is
// a *CloseError, ErrServerTimeout, ErrReconnectFailed or whatever else broke
// the connection. The client is disconnected and may be started again.
func (c *Client) OnClosed(h func(err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(slices.Clone(c.closed), h)
}

// Start connects, once: no policy applies to it. When it returns nil the
// handshake is done and the client stays connected until Stop or a loss; ctx
// has no more influence then.
func (c *Client) Start(ctx context.Context) error {
	l := newLife(ctx, c.opts.HandlerQueue)
	c.mu.Lock()
	if c.state != Disconnected {
		c.mu.Unlock()
		l.stop()
		return ErrStarted
	}
	c.state, c.life = Connecting, l
	c.mu.Unlock()

	s, err := c.connectFor(ctx, l)
	if err == nil && !c.adopt(l, s) {
		s.drop()
		err = ErrStopped
	}
	if err != nil {
		c.retire()
		l.stop()
		close(l.over)
		return err
	}
	c.opts.Logger.Info("connected", "conn", s.connectionID)
	s.start()
	go c.run(l, s) // joined by Stop, through l.over
	return nil
}

// connectFor connects until ctx ends or Stop is called.
func (c *Client) connectFor(ctx context.Context, l *life) (*session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	s, err := c.connect(ctx, l)
	if err != nil && l.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return s, err
}

// adopt makes s the session, unless Stop was called.
func (c *Client) adopt(l *life, s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	c.state, c.session = Connected, s
	return true
}

// retire makes the client disconnected.
func (c *Client) retire() {
	c.mu.Lock()
	c.state, c.session = Disconnected, nil
	c.mu.Unlock()
	if c.ownHTTP {
		c.opts.HTTPClient.CloseIdleConnections()
	}
}

// Stop ends the connection, or the attempts to get one, and waits until all
// goroutines of the client have returned: what was sent is written out, a
// Close record follows, the transport is closed politely, the handler that
// runs comes to its end, those that still waited are dropped, and OnClosed
// runs. When ctx ends first, the connection is cut, and Stop returns the error
// of ctx without waiting for a handler. Stopping a stopped client is no error.
//
// A handler must not call Stop, as it would wait for itself; it may start a
// goroutine that does.
func (c *Client) Stop(ctx context.Context) error {
	c.mu.Lock()
	l := c.life
	if l == nil {
		c.mu.Unlock()
		return nil
	}
	if c.state != Disconnected {
		c.state = Disconnecting
	}
	s := c.session
	c.session = nil
	l.stop()
	c.mu.Unlock()
	if s != nil {
		s.end(ending{err: ErrStopped, sayClose: true, polite: true})
	}
	select {
	case <-l.over:
		return nil
	case <-ctx.Done():
		l.once.Do(func() { close(l.hurry) })
		return fmt.Errorf("client: stop: %w", ctx.Err())
	}
}
