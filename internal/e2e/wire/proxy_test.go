package wire

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy is a cable between a client and the server that can be pulled: then
// nothing passes any more, in either direction, and neither end is told.
type proxy struct {
	listener net.Listener
	pulled   atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// startProxy serves until the test ends or stop is called.
func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // stopped
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, back)
			p.mu.Unlock()
			p.running.Go(func() { p.carry(client, back) })
			p.running.Go(func() { p.carry(back, client) })
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// carry copies one direction until its end, and then, unless the cable is
// pulled, ends the other one.
func (p *proxy) carry(from, to net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.pulled.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				io.Copy(io.Discard, from)
				return
			}
		}
		if err != nil {
			if !p.pulled.Load() {
				to.Close()
			}
			return
		}
	}
}

// pull drops everything from now on.
func (p *proxy) pull() { p.pulled.Store(true) }

// stop ends the proxy and its connections. It may be called twice.
func (p *proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
