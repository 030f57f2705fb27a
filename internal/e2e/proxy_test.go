package e2e

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/internal/redistest"
)

const (
	// proxyPiece is what a proxy passes on at once, in bytes.
	proxyPiece = 32 << 10
	// proxyPieces are how many of them may be on their way.
	proxyPieces = 4096
)

// A proxy stands between nodes and their Redis and makes the way long: each
// direction takes its delay, whatever the amount of bytes. It can also be
// frozen or closed.
type proxy struct {
	rs       *redistest.Server
	delay    time.Duration // of each direction
	listener net.Listener
	running  sync.WaitGroup
	over     chan struct{} // closed by close

	mu     sync.Mutex
	frozen bool
	conns  map[net.Conn]struct{} // nil when closed
}

// startProxy runs a proxy until the test ends.
func startProxy(t testing.TB, rs *redistest.Server, roundTrip time.Duration) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{rs: rs, delay: roundTrip / 2, listener: l, over: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL is the address for clients of Redis.
func (p *proxy) URL() string { return "redis://" + p.listener.Addr().String() }

// freeze lets nothing pass any more, not even the end of a connection.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// thawed waits until something may pass, or the proxy is closed.
func (p *proxy) thawed() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen {
		<-p.over
	}
}

// close cuts every connection and takes no further one.
func (p *proxy) close() {
	p.mu.Lock()
	if p.conns != nil {
		close(p.over)
		p.listener.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.rs.Network(), p.rs.Addr())
		if err != nil {
			client.Close()
			continue
		}
		if !p.own(client, server) {
			return
		}
		p.pass(client, server)
		p.pass(server, client)
	}
}

// own makes close end the connections too.
func (p *proxy) own(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return p.conns != nil
}

// forget closes connections whose other end has gone.
func (p *proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// A piece is on its way until it is due.
type piece struct {
	bytes []byte
	due   time.Time
}

// pass carries bytes one way until either end has gone.
func (p *proxy) pass(from, to net.Conn) {
	pieces := make(chan piece, proxyPieces)
	p.running.Go(func() {
		defer close(pieces)
		for {
			b := make([]byte, proxyPiece)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			pieces <- piece{b[:n], time.Now().Add(p.delay)}
		}
	})
	p.running.Go(func() {
		defer p.forget(from, to)
		defer p.thawed()
		var err error
		for piece := range pieces {
			if err != nil {
				continue
			}
			<-time.After(time.Until(piece.due))
			p.thawed()
			if _, err = to.Write(piece.bytes); err != nil {
				p.forget(from, to) // ends the reader, which ends us
			}
		}
	})
}
