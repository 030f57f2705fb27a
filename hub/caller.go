package hub

import (
	"context"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// A Caller is the connection on whose behalf a method or callback runs. It may
// be kept and used from any goroutine until OnDisconnected has returned;
// afterwards its operations fail with ErrConnectionNotFound.
type Caller struct{ c *conn }

// ConnectionID is the public id, the same that the client knows.
func (c *Caller) ConnectionID() string { return c.c.id }

// UserID is the user of the connection, or empty.
func (c *Caller) UserID() string { return c.c.userID() }

// Identity is what authentication found out, or nil.
func (c *Caller) Identity() *Identity { return c.c.identity }

// Transport says how the client is connected.
func (c *Caller) Transport() transport.Kind { return c.c.transport.Kind() }

// Protocol is the name of the hub protocol that the client speaks.
func (c *Caller) Protocol() string { return c.c.protocol.Name() }

// RemoteAddr is the peer's address as the HTTP server saw it.
func (c *Caller) RemoteAddr() string { return c.c.transport.RemoteAddr() }

// Pinged reports whether the client has ever pinged. One that has not is not
// timed out for its silence, only when its transport is found dead.
func (c *Caller) Pinged() bool { return c.c.pinged.Load() }

// Context ends with the connection; context.Cause then tells why.
func (c *Caller) Context() context.Context { return c.c.ctx }

// Clients names recipients as seen from this connection.
func (c *Caller) Clients() CallerClients { return CallerClients{Clients{c.c.hub}, c.c} }

// AddToGroup makes the connection a member of the group. When it has returned,
// every later send to the group, from any instance, reaches the connection.
// Groups end with the connection. Adding twice is adding once.
func (c *Caller) AddToGroup(ctx context.Context, group string) error { return c.c.join(ctx, group) }

// RemoveFromGroup ends the membership. When it has returned, nothing that is
// sent to the group reaches the connection. Not being a member is no error.
func (c *Caller) RemoveFromGroup(_ context.Context, group string) error {
	if err := validName("group", group); err != nil {
		return err
	}
	c.c.leave(group)
	return nil
}

// Groups returns the names of the groups the connection is in, in no order.
func (c *Caller) Groups() []string {
	c.c.groupMu.Lock()
	defer c.c.groupMu.Unlock()
	names := make([]string, 0, len(c.c.groups))
	for name := range c.c.groups {
		names = append(names, name)
	}
	return names
}

// Set keeps a value with the connection, for its life.
func (c *Caller) Set(key string, value any) {
	c.c.itemsMu.Lock()
	defer c.c.itemsMu.Unlock()
	if c.c.items == nil {
		c.c.items = make(map[string]any)
	}
	c.c.items[key] = value
}

// Item returns a value that Set kept, or nil.
func (c *Caller) Item(key string) any {
	c.c.itemsMu.Lock()
	defer c.c.itemsMu.Unlock()
	return c.c.items[key]
}

// Abort ends the connection with a Close message that tells the client not to
// reconnect. It returns at once.
func (c *Caller) Abort() { c.c.end(ErrAborted) }
