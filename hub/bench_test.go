package hub_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// A sinkConn is a client that says what it is told to and reads at once.
type sinkConn struct {
	id     string
	pieces chan []byte
	done   chan struct{}
	close  sync.Once
	born   time.Time
	sent   *atomic.Int64 // messages, handshakes not counted
	first  bool
}

func newSink(id string, p protocol.Protocol, sent *atomic.Int64) *sinkConn {
	c := &sinkConn{id: id, pieces: make(chan []byte, 4), done: make(chan struct{}), born: time.Now(), sent: sent}
	c.pieces <- protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: p.Name(), Version: 1})
	return c
}

func (c *sinkConn) ID() string                  { return c.id }
func (c *sinkConn) Kind() transport.Kind        { return transport.WebSockets }
func (c *sinkConn) Binary() bool                { return true }
func (c *sinkConn) RemoteAddr() string          { return "" }
func (c *sinkConn) Age() time.Duration          { return time.Since(c.born) }
func (c *sinkConn) LastReceived() time.Duration { return c.Age() }
func (c *sinkConn) CloseNow()                   { c.close.Do(func() { close(c.done) }) }

func (c *sinkConn) Receive() ([]byte, error) {
	select {
	case p := <-c.pieces:
		return p, nil
	case <-c.done:
		return nil, io.EOF
	}
}

func (c *sinkConn) Send(batch []*transport.Message, _ time.Time) error {
	n := len(batch)
	if !c.first {
		c.first = true
		n--
	}
	c.sent.Add(int64(n))
	return nil
}

func (c *sinkConn) SendClose(int, time.Time) error {
	c.CloseNow()
	return nil
}

// sinks connects n sinks to the hub, half of them in each protocol.
func sinks(b *testing.B, h *hub.Hub, n int, sent *atomic.Int64) []*sinkConn {
	b.Helper()
	var serving sync.WaitGroup
	conns := make([]*sinkConn, n)
	for i := range conns {
		c := newSink(fmt.Sprint("sink", i), protocols()[i%2], sent)
		conns[i] = c
		serving.Go(func() { h.ServeConn(context.Background(), c, nil) })
	}
	b.Cleanup(func() {
		for _, c := range conns {
			c.CloseNow()
		}
		serving.Wait()
	})
	for h.Stats().Connections < n {
		runtime.Gosched()
	}
	return conns
}

func BenchmarkDispatch(b *testing.B) {
	for _, p := range protocols() {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/records=%d", p.Name(), batch), func(b *testing.B) {
				h := start(b, hub.Options{})
				var sent atomic.Int64
				c := newSink("caller", p, &sent)
				var serving sync.WaitGroup
				serving.Go(func() { h.ServeConn(context.Background(), c, nil) })
				b.Cleanup(func() { c.CloseNow(); serving.Wait() })
				var piece []byte
				for i := range batch {
					var err error
					if piece, err = p.AppendInvocation(piece, fmt.Sprint(i), "EchoString", []any{strings.Repeat("x", 128)}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				calls := int64(0)
				for b.Loop() {
					c.pieces <- piece
					calls += int64(batch)
					for sent.Load() < calls-3*int64(batch) {
						runtime.Gosched()
					}
				}
				for sent.Load() < calls {
					runtime.Gosched()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(calls), "ns/call")
			})
		}
	}
}

func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("receivers=%d", n), func(b *testing.B) {
			h := start(b, hub.Options{})
			var sent atomic.Int64
			sinks(b, h, n, &sent)
			payload := strings.Repeat("x", 128)
			base := sent.Load()
			all := h.Clients().All()
			b.ReportAllocs()
			messages := int64(0)
			for b.Loop() {
				if err := all.Send(b.Context(), "m", payload); err != nil {
					b.Fatal(err)
				}
				messages += int64(n)
				for sent.Load()-base < messages-4*int64(n) {
					runtime.Gosched()
				}
			}
			for sent.Load()-base < messages {
				runtime.Gosched()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(messages), "ns/delivery")
		})
	}
}
