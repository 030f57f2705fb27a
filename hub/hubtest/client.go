package hubtest

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// Options configure a Client. The zero value is a JSON client of nobody in
// particular over WebSockets.
type Options struct {
	Protocol     protocol.Protocol
	Identity     *hub.Identity
	ConnectionID string // zero: random
	Transport    transport.Kind

	// NoHandshake leaves the handshake to the test.
	NoHandshake bool

	// Stateful makes a connection whose client has negotiated stateful
	// reconnects: see Client.Cut and Client.Reattach. The records of both
	// sides are the test's to number and to send again.
	Stateful bool

	// Unplugged makes a client whose cable is pulled right after the
	// handshake: it answers nothing any more and says no goodbye.
	Unplugged bool
}

// A Client is one connection to a hub in memory. It is used by one goroutine.
type Client struct {
	t     testing.TB
	conn  *Conn
	state *stateful // nil if the connection is not
	proto protocol.Protocol
	over  chan struct{} // closed when the hub has let go of the connection

	buf    []byte
	lastID int
	pings  int
}

// Connect opens a connection to a running hub, with its handshake done, and
// ends it when the test does.
func Connect(t testing.TB, h *hub.Hub, o Options) *Client {
	t.Helper()
	if o.Protocol == nil {
		o.Protocol = protocol.JSON{}
	}
	c := &Client{t: t, conn: newConn(o), proto: o.Protocol, over: make(chan struct{})}
	var served transport.Conn = c.conn
	version := 1
	if o.Stateful {
		c.state = newStateful(c.conn)
		served, version = c.state, 2
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		defer close(c.over)
		h.ServeConn(context.Background(), served, o.Identity)
	})
	t.Cleanup(func() {
		c.Drop()
		serving.Wait()
	})
	if !o.NoHandshake {
		c.Write(protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: o.Protocol.Name(), Version: version}))
		if text, err := c.Handshake(); text != "" || err != nil {
			t.Fatalf("handshake: %q, %v", text, err)
		}
	}
	c.conn.unplugged.Store(o.Unplugged)
	return c
}

// ID is the connection's id.
func (c *Client) ID() string { return c.conn.id }

// Write sends bytes as they are.
func (c *Client) Write(b []byte) {
	select {
	case c.conn.pipe.Load().in <- append([]byte(nil), b...):
		c.conn.received.Store(int64(c.conn.Age()))
	case <-c.conn.dropped:
	case <-c.over:
	}
}

// Handshake reads the answer to a handshake request.
func (c *Client) Handshake() (errText string, err error) {
	for {
		text, size, err := protocol.ParseHandshakeResponse(c.buf)
		if err != nil || size > 0 {
			c.buf = c.buf[size:]
			return text, err
		}
		if err := c.more(); err != nil {
			return "", err
		}
	}
}

// more reads one write of the hub.
func (c *Client) more() error {
	select {
	case b := <-c.conn.pipe.Load().out:
		c.buf = append(c.buf, b...)
		return nil
	default:
	}
	select {
	case b := <-c.conn.pipe.Load().out:
		c.buf = append(c.buf, b...)
		return nil
	case <-c.conn.said:
	case <-c.conn.dropped:
	case <-c.t.Context().Done():
		return c.t.Context().Err()
	}
	select { // what was written before the end
	case b := <-c.conn.pipe.Load().out:
		c.buf = append(c.buf, b...)
		return nil
	default:
		return io.EOF
	}
}

// Next returns the next record, pings left out; io.EOF after the hub's end.
// The message is valid for good.
func (c *Client) Next() (*protocol.Message, error) {
	for {
		body, size, err := c.proto.Cut(c.buf, 0)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			if err := c.more(); err != nil {
				return nil, err
			}
			continue
		}
		c.buf = c.buf[size:]
		m := new(protocol.Message)
		if err := c.proto.Parse(append([]byte(nil), body...), m); err != nil {
			return nil, err
		}
		if m.Type != protocol.Ping {
			return m, nil
		}
		c.pings++
	}
}

// Pings reads what has been written so far and returns how many pings there
// have been, these included. Nothing else may be waiting.
func (c *Client) Pings() int {
	c.t.Helper()
	for {
		body, size, err := c.proto.Cut(c.buf, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		if size > 0 {
			var m protocol.Message
			if err := c.proto.Parse(body, &m); err != nil || m.Type != protocol.Ping {
				c.t.Fatalf("type %d, %v; want only pings", m.Type, err)
			}
			c.pings++
			c.buf = c.buf[size:]
			continue
		}
		select {
		case b := <-c.conn.pipe.Load().out:
			c.buf = append(c.buf, b...)
		default:
			return c.pings
		}
	}
}

// Call is one invocation that a client received.
type Call struct {
	Target string
	Args   []any
}

// Receive returns the next invocation and fails the test if something else
// comes.
func (c *Client) Receive() Call {
	c.t.Helper()
	m, err := c.Next()
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	if m.Type != protocol.Invocation {
		c.t.Fatalf("received type %d (error %q), want an invocation", m.Type, m.Error)
	}
	call := Call{Target: string(m.Target)}
	for _, raw := range m.Arguments {
		v, err := protocol.Decode[any](c.proto, raw)
		if err != nil {
			c.t.Fatalf("argument of %s: %v", m.Target, err)
		}
		call.Args = append(call.Args, v)
	}
	return call
}

// Send calls a method without asking for an answer.
func (c *Client) Send(target string, args ...any) {
	c.t.Helper()
	b, err := c.proto.AppendInvocation(nil, "", target, args)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Write(b)
}

// Begin calls a method and returns the invocation id of the answer to come.
func (c *Client) Begin(target string, args ...any) string {
	c.t.Helper()
	c.lastID++
	id := strconv.Itoa(c.lastID)
	b, err := c.proto.AppendInvocation(nil, id, target, args)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Write(b)
	return id
}

// Invoke calls a method and returns its result. Invocations that arrive before
// the answer are handed to on, which may be nil.
func (c *Client) Invoke(target string, args []any, on func(Call)) (any, error) {
	c.t.Helper()
	id := c.Begin(target, args...)
	for {
		m, err := c.Next()
		if err != nil {
			return nil, err
		}
		switch {
		case m.Type == protocol.Close:
			return nil, fmt.Errorf("closed: %s", m.Error)
		case m.Type == protocol.Invocation && on != nil:
			call := Call{Target: string(m.Target)}
			for _, raw := range m.Arguments {
				v, err := protocol.Decode[any](c.proto, raw)
				if err != nil {
					return nil, err
				}
				call.Args = append(call.Args, v)
			}
			on(call)
		case m.Type == protocol.Completion && string(m.InvocationID) == id:
			if m.HasError {
				return nil, fmt.Errorf("%s", m.Error)
			}
			return protocol.Decode[any](c.proto, m.Value)
		}
	}
}

// HangUp ends the connection politely, as a client that closes its socket.
func (c *Client) HangUp() { c.conn.hang.Do(func() { close(c.conn.hungUp) }) }

// Cut loses the socket of a stateful connection, with everything that is on
// its way in either direction and was not read yet.
func (c *Client) Cut() {
	c.t.Helper()
	c.state.cut()
	c.buf = nil
}

// Reattach gives a stateful connection another socket after Cut and reports
// whether the hub has taken it.
func (c *Client) Reattach() bool { return c.state.reattach() }

// Drop cuts the connection.
func (c *Client) Drop() { c.conn.CloseNow() }

// Over is closed when the hub has let go of the connection.
func (c *Client) Over() <-chan struct{} { return c.over }
