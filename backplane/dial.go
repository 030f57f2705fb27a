package backplane

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
}

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

// sysConn is a netConn without TLS. Its descriptor lets go-redis see that an
// idle connection was closed before it writes to it.
type sysConn struct{ *netConn }

func (c sysConn) SyscallConn() (syscall.RawConn, error) {
	if conn, ok := c.Conn.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// dial opens a connection that belongs to the link.
func (l *link) dial(ctx context.Context) (net.Conn, *netConn, error) {
	server := l.r.server
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	var conn net.Conn
	var err error
	if server.TLSConfig != nil {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: server.TLSConfig}).DialContext(ctx, server.Network, server.Addr)
	} else {
		conn, err = dialer.DialContext(ctx, server.Network, server.Addr)
	}
	if err != nil {
		return nil, nil, err
	}
	own := &netConn{Conn: conn, link: l}
	if err := l.own(own); err != nil {
		conn.Close()
		return nil, nil, err
	}
	if _, ok := conn.(syscall.Conn); ok {
		return sysConn{own}, own, nil
	}
	return own, own, nil
}

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
