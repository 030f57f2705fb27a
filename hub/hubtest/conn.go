package hubtest

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// window is how many writes a client may leave unread before the hub's writer
// waits, as the buffers of a socket would.
const window = 16

// A pipe is what is on its way on one socket.
type pipe struct {
	in  chan []byte // pieces from the client
	out chan []byte // writes of the hub, one element per Send
}

func newPipe() *pipe {
	return &pipe{in: make(chan []byte, window), out: make(chan []byte, window)}
}

// A Conn is the hub's end of a connection in memory.
type Conn struct {
	id       string
	kind     transport.Kind
	binary   bool
	born     time.Time
	received atomic.Int64 // age of the last arrival

	pipe    atomic.Pointer[pipe]
	dropped chan struct{}
	drop    sync.Once
	hungUp  chan struct{} // the client has ended politely
	hang    sync.Once
	said    chan struct{} // the hub has sent its close
	say     sync.Once
	status  atomic.Int64

	unplugged atomic.Bool
}

var _ transport.Conn = (*Conn)(nil)

var errDropped = errors.New("hubtest: connection dropped")

func newConn(o Options) *Conn {
	c := &Conn{
		id: o.ConnectionID, kind: transport.WebSockets, binary: true, born: time.Now(),
		dropped: make(chan struct{}), hungUp: make(chan struct{}), said: make(chan struct{}),
	}
	c.pipe.Store(newPipe())
	if c.id == "" {
		var b [16]byte
		rand.Read(b[:])
		c.id = base64.RawURLEncoding.EncodeToString(b[:])
	}
	if o.Transport != "" {
		c.kind = o.Transport
		c.binary = c.kind != transport.ServerSentEvents
	}
	return c
}

// ID returns the connection id.
func (c *Conn) ID() string { return c.id }

// Kind returns the transport that the connection stands for.
func (c *Conn) Kind() transport.Kind { return c.kind }

// Binary reports whether that transport carries binary messages.
func (c *Conn) Binary() bool { return c.binary }

// RemoteAddr returns a made-up address.
func (c *Conn) RemoteAddr() string { return "hubtest" }

// Age is the time since the connection was made.
func (c *Conn) Age() time.Duration { return time.Since(c.born) }

// LastReceived is the age at which the client last wrote.
func (c *Conn) LastReceived() time.Duration { return time.Duration(c.received.Load()) }

// Receive returns what the client wrote next.
func (c *Conn) Receive() ([]byte, error) {
	in := c.pipe.Load().in
	select {
	case piece := <-in:
		return piece, nil
	default:
	}
	select {
	case piece := <-in:
		return piece, nil
	case <-c.dropped:
		return nil, errDropped
	case <-c.hungUp:
		select {
		case piece := <-in:
			return piece, nil
		default:
			return nil, io.EOF
		}
	}
}

// Send hands the batch to the client as one write. A probe is answered at once,
// as every living peer does.
func (c *Conn) Send(batch []*transport.Message, deadline time.Time) error {
	var b []byte
	for _, m := range batch {
		if m.Control() && !c.unplugged.Load() {
			c.received.Store(int64(c.Age()))
		}
		b = append(b, m.Payload()...)
	}
	if len(b) == 0 || c.unplugged.Load() {
		return nil // a real one fills the kernel's buffers first
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c.dropped:
		return errDropped
	case c.pipe.Load().out <- b:
		return nil
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}

// SendClose tells the client that nothing follows.
func (c *Conn) SendClose(status int, _ time.Time) error {
	c.status.Store(int64(status))
	c.say.Do(func() { close(c.said) })
	return nil
}

// CloseNow drops the connection.
func (c *Conn) CloseNow() { c.drop.Do(func() { close(c.dropped) }) }
