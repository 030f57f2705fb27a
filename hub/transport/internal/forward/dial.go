package forward

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 2 * time.Second

	// lossTimeout is after how long data that the owner's machine does not
	// acknowledge ends the connection, where the system can be told so. It is
	// long, because Linux counts an owner that takes nothing, too.
	lossTimeout = 60 * time.Second

	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 10 * time.Second
	keepAliveProbes   = 3

	// Each poll under way has a connection to the owner, and after a message
	// to all of them every one is idle and needed again at once. None is kept
	// for long: an owner that closes it in the moment of its use costs the
	// request.
	idlePerOwner = 8192
	idleTotal    = 32768
	idleTimeout  = 3 * time.Second

	maxAnswerHead = 1 << 20
)

// newTransport returns what exchanges requests and answers: on kept connections,
// or on a new one for each.
func (f *Forwarder) newTransport(keep bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		DialContext:            func(ctx context.Context, _, host string) (net.Conn, error) { return f.dial(ctx, "http", host) },
		DialTLSContext:         func(ctx context.Context, _, host string) (net.Conn, error) { return f.dial(ctx, "https", host) },
		DisableKeepAlives:      !keep,
		DisableCompression:     true, // or it would unpack what the client asked for
		MaxIdleConns:           idleTotal,
		MaxIdleConnsPerHost:    idlePerOwner,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// dial connects to an owner.
func (f *Forwarder) dial(ctx context.Context, scheme, host string) (*ownerConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dialer := net.Dialer{
		ControlContext:  control,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveProbes},
	}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	if scheme == "http" {
		return &ownerConn{Conn: conn}, nil
	}
	config := f.secure
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(host)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return &ownerConn{Conn: secure}, nil
}

// An ownerConn is a connection to an owner that knows whether anything was
// written to it, and tells when the owner has ended it. It hides whatever else
// the connection could do, ReadFrom above all, which would write past it.
type ownerConn struct {
	net.Conn
	written atomic.Int64

	mu    sync.Mutex
	end   error       // guarded by mu; why a read has failed
	onEnd func(error) // guarded by mu
}

func (c *ownerConn) Write(b []byte) (int, error) {
	c.written.Add(int64(len(b))) // before the owner can answer
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n - len(b)))
	return n, err
}

func (c *ownerConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end = err
		if c.onEnd != nil {
			c.onEnd(err)
		}
	}
	return n, err
}

// watch makes the connection call f when it ends, or at once if it has; nil for
// nobody, and when watch returns the one before is not running. f is called
// under a lock and must not wait.
func (c *ownerConn) watch(f func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onEnd = f
	if c.end != nil && f != nil {
		f(c.end)
	}
}
