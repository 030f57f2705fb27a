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

	// lastRecord is when the last record was handled, in nanoseconds of the
	// transport's age; pinged is set by the client's first ping, which
	// starts its timeout clock; blocked is set while the reader waits for
	// room, which stops the clock.
	lastRecord atomic.Int64
	pinged     atomic.Bool
	blocked    atomic.Bool

	// closing is when the end began, in nanoseconds of age; 0 while open.
	closing atomic.Int64

	// owned by the keep-alive tick
	lastPing  time.Duration
	lastProbe time.Duration

	// guarded by groupMu
	groupMu sync.Mutex
	gone    bool // takes no further group
	groups  map[string]*set

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
	return c
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
	if c.calls.awaitConnected() {
		c.hub.runDisconnected(c, cause)
	}
	c.leaveAll()
	c.hub.registry.remove(c)
	c.hub.stats.countEnd(disconnectOf(cause))
}

// join makes the connection a member of a group and waits until messages from
// other instances reach it.
func (c *conn) join(ctx context.Context, name string) error {
	if err := validName("group", name); err != nil {
		return err
	}
	c.groupMu.Lock()
	if c.gone {
		c.groupMu.Unlock()
		return ErrConnectionNotFound
	}
	if _, member := c.groups[name]; member {
		c.groupMu.Unlock()
		return c.hub.relay.confirm(ctx, c.hub.names.Group(name))
	}
	if len(c.groups) >= c.hub.opts.MaximumGroupsPerConnection {
		c.groupMu.Unlock()
		return ErrTooManyGroups
	}
	s := c.hub.registry.holdGroup(name)
	if c.groups == nil {
		c.groups = make(map[string]*set)
	}
	c.groups[name] = s
	s.add(c)
	c.groupMu.Unlock()

	if err := c.hub.relay.subscribe(ctx, c.hub.names.Group(name)); err != nil {
		c.leave(name)
		return err
	}
	return nil
}

// leave undoes join; when it returns, nothing that is sent to the group
// reaches the connection.
func (c *conn) leave(name string) {
	c.groupMu.Lock()
	s, member := c.groups[name]
	if member {
		delete(c.groups, name)
		s.remove(c)
		c.hub.registry.dropGroup(name, s)
	}
	c.groupMu.Unlock()
	if member {
		c.hub.relay.unsubscribe(c.hub.names.Group(name))
	}
}

// leaveAll leaves every group for good and gives up the connection's own
// channels.
func (c *conn) leaveAll() {
	c.groupMu.Lock()
	c.gone = true
	groups := c.groups
	c.groups = nil
	for name, s := range groups {
		s.remove(c)
		c.hub.registry.dropGroup(name, s)
	}
	c.groupMu.Unlock()
	if c.hub.relay == nil {
		return
	}
	channels := c.ownChannels(make([]string, 0, len(groups)+2))
	for name := range groups {
		channels = append(channels, c.hub.names.Group(name))
	}
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
