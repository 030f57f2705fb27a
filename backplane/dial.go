package backplane

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// keepAlive finds dead peers on connections that are idle for long; live ones
// are watched by pings and probes much closer than that.
const keepAlive = 15 * time.Second

// errDialedTwice is how a connection that was lost shows itself: the client
// wants to dial again, and may not.
var errDialedTwice = errors.New("connection lost")

// netConn is a connection of a link: it is cut when the link ends.
type netConn struct {
	net.Conn
	link    *link
	written atomic.Int64 // bytes handed to the network

	// The first bytes that came, while the connection is being set up: a
	// server that turns a client away says why and hangs up, and go-redis
	// forgets what it said.
	mu    sync.Mutex
	first []byte
	heard bool
}

// firstLimit bounds what is kept of the first bytes.
const firstLimit = 256

func (c *netConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.heard {
		c.mu.Lock()
		c.first = append(c.first, p[:min(n, firstLimit)]...)
		c.mu.Unlock()
		c.heard = true
	}
	return n, err
}

// farewell is the error reply a server began with, if it did.
func (c *netConn) farewell() (replyError, bool) {
	if c == nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	line, _, _ := strings.Cut(string(c.first), "\r\n")
	text, ok := strings.CutPrefix(line, "-")
	return replyError(text), ok
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (replyError) RedisError() {}

func (c *netConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// Close also takes the connection from its link.
func (c *netConn) Close() error {
	c.link.forget(c)
	return c.Conn.Close()
}

// cut closes the socket at once. TLS would first say goodbye, and wait for it.
func (c *netConn) cut() {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		conn.NetConn().Close()
		return
	}
	c.Conn.Close()
}

// sysConn is a netConn with a descriptor, which lets go-redis see that an idle
// connection was closed before it writes to it. With TLS it sees the encrypted
// bytes; some that wait mean a replaced connection at worst.
type sysConn struct {
	*netConn
	raw syscall.Conn
}

func (c sysConn) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// dial opens a connection that belongs to the link.
func (l *link) dial(ctx context.Context) (net.Conn, *netConn, error) {
	server := l.r.server
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	conn, err := dialer.DialContext(ctx, server.Network, server.Addr)
	if err != nil {
		return nil, nil, err
	}
	raw, hasDescriptor := conn.(syscall.Conn)
	if server.TLSConfig != nil {
		secure := tls.Client(conn, server.TLSConfig)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, nil, &handshakeError{err}
		}
		conn = secure
	}
	own := &netConn{Conn: conn, link: l}
	if err := l.own(own); err != nil {
		conn.Close()
		return nil, nil, err
	}
	if hasDescriptor {
		return sysConn{own, raw}, own, nil
	}
	return own, own, nil
}

// handshakeError is an error of the TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// singleDial returns a dialer that dials once, and the place where the
// connection will be found. A client that lost its connection therefore
// reports it instead of quietly opening another one.
func (l *link) singleDial() (func(context.Context, string, string) (net.Conn, error), *atomic.Pointer[netConn]) {
	var dialed atomic.Bool
	var place atomic.Pointer[netConn]
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errDialedTwice
		}
		conn, own, err := l.dial(ctx)
		if err != nil {
			return nil, err
		}
		place.Store(own)
		return conn, nil
	}, &place
}
