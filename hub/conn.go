package hub

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// A conn is one connection after its handshake. ServeConn makes it and waits
// for everything that it started; see the package comment for who owns what.
type conn struct {
	// fixed
	hub           *Hub
	transport     transport.Conn
	id            string
	identity      *Identity
	protocol      protocol.Protocol
	protocolIndex uint8
	caller        Caller
	registered    bool            // known to the registry, and its connect step runs
	ctx           context.Context // the connection's own lifetime, ended with a cause
	cancel        context.CancelCauseFunc
	write         func() // writeQueue and invokeQueued as values, so that
	invoke        func() // starting them allocates nothing

	// running counts the teardown, the writer and the invokers.
	running sync.WaitGroup

	out   outbound
	calls calls

	uploads uploads
	resume  *resumption // fixed; nil without stateful reconnects

	// lastRecord is when the last record was handled, in nanoseconds of the
	// transport's age; pinged is set by the client's first ping, which
	// starts its timeout clock; blocked is set while the reader waits for
	// room, which stops the clock.
	lastRecord atomic.Int64
	pinged     atomic.Bool
	blocked    atomic.Bool

	// expires is when the authentication ends, in nanoseconds since 1970; 0
	// is never.
	expires atomic.Int64

	// closing is when the end began, in nanoseconds of age; 0 while open.
	closing atomic.Int64

	// owned by the keep-alive tick
	lastPing  time.Duration
	lastProbe time.Duration

	// guarded by groupMu
	groupMu sync.Mutex
	gone    bool // takes no further group
	groups  map[string]*membership

	// guarded by itemsMu
	itemsMu sync.Mutex
	items   map[string]any
}

func (h *Hub) newConn(ctx context.Context, t transport.Conn, id *Identity, protocolIndex int) *conn {
	c := &conn{
		hub:           h,
		transport:     t,
		id:            t.ID(),
		identity:      id,
		protocol:      h.opts.Protocols[protocolIndex],
		protocolIndex: uint8(protocolIndex),
	}
	c.caller.c = c
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.write, c.invoke = c.writeQueue, c.invokeQueued
	c.registered = true
	c.calls.connected, c.calls.invokers = make(chan struct{}), 1
	c.running.Add(2) // the teardown, which end starts exactly once, and the connect step
	c.lastPing = t.Age()
	c.lastRecord.Store(int64(c.lastPing))
	if h.opts.CloseOnAuthenticationExpiration {
		c.renew(id)
	}
	return c
}

// renew takes the end of a fresh authentication.
func (c *conn) renew(id *Identity) {
	end := int64(0)
	if id != nil && !id.Expires.IsZero() {
		end = max(1, id.Expires.UnixNano())
	}
	c.expires.Store(end)
}

func (c *conn) userID() string {
	if c.identity == nil {
		return ""
	}
	return c.identity.UserID
}

// end begins the end of the connection: contexts are cancelled, the client is
// told why, and OnDisconnected runs. Only the first call has an effect.
func (c *conn) end(cause error) { c.endOver(cause, !disconnectOf(cause).quiet) }

// endOver is end that knows whether the transport still takes a farewell.
func (c *conn) endOver(cause error, alive bool) {
	if !c.closing.CompareAndSwap(0, max(1, int64(c.transport.Age()))) {
		return
	}
	d := disconnectOf(cause)
	c.cancel(cause)
	if c.resume != nil {
		alive = c.stopResuming() && alive
	}
	if !alive {
		c.abandon()
		c.transport.CloseNow()
	} else {
		body := c.protocol.AppendClose(transport.BeginMessage(64), closeText(cause, c.hub.opts.EnableDetailedErrors), d.allowReconnect)
		status := transport.StatusNormal
		if d == ErrShutdown {
			status = transport.StatusGoingAway
		}
		c.finish(transport.EndMessage(body, c.protocol.Binary()), status, d == ErrSlowConsumer)
	}
	go c.teardown(cause)
}

// writeFailed ends a connection whose transport takes no more.
func (c *conn) writeFailed(err error) {
	c.endOver(failure(err), false)
	c.abandon()
	c.transport.CloseNow()
}

// teardown runs OnDisconnected, once OnConnected is over, and takes the
// connection out of everything.
func (c *conn) teardown(cause error) {
	defer c.running.Done()
	c.calls.close(c)
	if !c.registered {
		return
	}
	c.endQuestions()
	defer func() { // also after a callback that ends its goroutine
		c.leaveAll()
		c.hub.registry.remove(c)
		c.hub.stats.countEnd(disconnectOf(cause))
	}()
	if c.calls.awaitConnected() {
		c.hub.runDisconnected(c, cause)
	}
}

// A membership is a connection's place in one group. Each join subscribes once;
// one of these counts stays with the membership, and whoever ends it gives that
// one back. Its fields are guarded by the connection's groupMu.
type membership struct {
	set     *set
	joining int  // calls of join under way
	held    bool // it has its count
}

// join makes the connection a member of a group and waits until messages from
// other instances reach it.
func (c *conn) join(ctx context.Context, name string) error {
	m, err := c.enter(name)
	if err != nil {
		return err
	}
	return c.settle(ctx, name, m)
}

// enter is the part of join that does not wait. settle must follow.
func (c *conn) enter(name string) (*membership, error) {
	if err := validName("group", name); err != nil {
		return nil, err
	}
	c.groupMu.Lock()
	defer c.groupMu.Unlock()
	if c.gone {
		return nil, ErrConnectionNotFound
	}
	m := c.groups[name]
	if m == nil {
		if len(c.groups) >= c.hub.opts.MaximumGroupsPerConnection {
			return nil, ErrTooManyGroups
		}
		m = &membership{set: c.hub.registry.holdGroup(name)}
		if c.groups == nil {
			c.groups = make(map[string]*membership)
		}
		c.groups[name] = m
		m.set.add(c)
	}
	m.joining++
	return m, nil
}

// settle subscribes and gives the count to the membership, or back if that has
// one or is over. The last join to fail ends a membership that nobody settled.
func (c *conn) settle(ctx context.Context, name string, m *membership) error {
	err := c.hub.relay.subscribe(ctx, c.hub.names.Group(name))
	c.groupMu.Lock()
	m.joining--
	current := c.groups[name] == m
	keep := current && err == nil && !m.held
	switch {
	case keep:
		m.held = true
	case current && err != nil && !m.held && m.joining == 0:
		c.drop(name, m)
	case c.gone && err == nil:
		err = ErrConnectionNotFound
	}
	c.groupMu.Unlock()
	if !keep {
		c.hub.relay.unsubscribe(c.hub.names.Group(name))
	}
	return err
}

// drop ends a membership; groupMu is held.
func (c *conn) drop(name string, m *membership) {
	delete(c.groups, name)
	m.set.remove(c)
	c.hub.registry.dropGroup(name, m.set)
}

// leave undoes join; when it returns, nothing that is sent to the group
// reaches the connection.
func (c *conn) leave(name string) {
	c.groupMu.Lock()
	m := c.groups[name]
	if m != nil {
		c.drop(name, m)
	}
	held := m != nil && m.held
	c.groupMu.Unlock()
	if held {
		c.hub.relay.unsubscribe(c.hub.names.Group(name))
	}
}

// leaveAll leaves every group for good and gives up the connection's own
// channels.
func (c *conn) leaveAll() {
	c.groupMu.Lock()
	c.gone = true
	channels := c.ownChannels(make([]string, 0, len(c.groups)+2))
	for name, m := range c.groups {
		if m.held {
			channels = append(channels, c.hub.names.Group(name))
		}
		c.drop(name, m)
	}
	c.groups = nil
	c.groupMu.Unlock()
	c.hub.relay.unsubscribe(channels...)
}

// ownChannels appends the channels on which this connection alone, or its
// user, is addressed.
func (c *conn) ownChannels(dst []string) []string {
	dst = append(dst, c.hub.names.Connection(c.id))
	if id := c.userID(); id != "" {
		dst = append(dst, c.hub.names.User(id))
	}
	return dst
}
