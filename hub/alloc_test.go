package hub

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub/dialect"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// nullConn is a transport that nothing is expected of.
type nullConn struct{ transport.Conn }

func (nullConn) ID() string         { return "c" }
func (nullConn) Age() time.Duration { return time.Second }

// blocked makes a connection whose writer is taken to be busy, so that what is
// queued stays there.
func blocked(t *testing.T, h *Hub, protocolIndex int) *conn {
	t.Helper()
	c := h.newConn(context.Background(), nullConn{}, nil, protocolIndex)
	c.out.writing = true
	return c
}

// reset empties the queue and keeps its memory.
func (c *conn) reset() {
	o := &c.out
	for _, m := range o.queue[o.head:] {
		m.Release(1)
	}
	clear(o.queue)
	o.queue, o.head, o.bytes = o.queue[:0], 0, 0
}

func newTestHub(t *testing.T) *Hub {
	t.Helper()
	h, err := New(Options{Name: "Test.Hub"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestQueueingAPreparedMessageDoesNotAllocate(t *testing.T) {
	h := newTestHub(t)
	c := blocked(t, h, 0)
	m := h.newMessage(append(transport.BeginMessage(0), "{}\x1e"...), false)
	fill := func() {
		for range 10 {
			m.Retain(1)
			if _, took := c.enqueue(m); !took {
				t.Fatal("the queue took nothing")
			}
		}
		c.reset()
	}
	fill()
	if n := testing.AllocsPerRun(100, fill); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAReceiverMoreAllocatesNothing(t *testing.T) {
	h := newTestHub(t)
	var s set
	const receivers = 1000
	conns := make([]*conn, receivers)
	for i := range conns {
		conns[i] = blocked(t, h, i%2)
		conns[i].id = fmt.Sprint("c", i)
		s.add(conns[i])
	}
	var p prepared
	for i, proto := range h.opts.Protocols {
		p[i] = h.newMessage(proto.AppendPing(transport.BeginMessage(8)), proto.Binary())
	}
	excluded := []string{"c7"}
	n := testing.AllocsPerRun(20, func() {
		s.deliver(&p, excluded)
		for _, c := range conns {
			c.reset()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for %d receivers, want 0", n, receivers)
	}
}

// The frames of a message from another instance are copied once per protocol,
// whoever many connections are here.
func TestDeliveryFromTheBackplaneAllocatesPerMessageOnly(t *testing.T) {
	h := newTestHub(t)
	h.relay = newRelay(h, nil)
	allocations := func(receivers int) float64 {
		var s set
		conns := make([]*conn, receivers)
		for i := range conns {
			conns[i] = blocked(t, h, i%2)
			s.add(conns[i])
		}
		for i := range h.opts.Protocols {
			h.stats.byProtocol[i].Store(1)
		}
		payload, err := h.relay.encode("", nil, "m", []any{"payload"})
		if err != nil {
			t.Fatal(err)
		}
		deliver := func() {
			if err := h.relay.deliverTo(&s, payload, true); err != nil {
				t.Fatal(err)
			}
			for _, c := range conns {
				c.reset()
			}
		}
		deliver()
		return testing.AllocsPerRun(20, deliver)
	}
	if one, many := allocations(2), allocations(1000); many > one {
		t.Errorf("%v allocations for 1000 receivers, %v for 2", many, one)
	}
}

func TestMessagesAreEncodedOncePerProtocol(t *testing.T) {
	counting := &countingProtocol{Protocol: protocol.JSON{}}
	h, err := New(Options{Name: "Test.Hub", Protocols: []protocol.Protocol{counting}})
	if err != nil {
		t.Fatal(err)
	}
	var s set
	for range 500 {
		s.add(blocked(t, h, 0))
	}
	h.stats.byProtocol[0].Store(500)
	if err := h.sendTo(&s, nil, "m", []any{"x"}); err != nil {
		t.Fatal(err)
	}
	if counting.encoded != 1 {
		t.Errorf("encoded %d times for 500 receivers, want once", counting.encoded)
	}
}

type countingProtocol struct {
	protocol.Protocol
	encoded int
}

func (p *countingProtocol) AppendInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error) {
	p.encoded++
	return p.Protocol.AppendInvocation(dst, id, target, args, streamIDs...)
}

func TestAcksWrapToNegativeIDs(t *testing.T) {
	w := waiters{byID: map[int32]chan struct{}{}, last: 1<<31 - 1}
	id, acked, err := w.add()
	if err != nil || id != -1<<31 {
		t.Fatalf("id %d, %v, want %d", id, err, -1<<31)
	}
	ack, err := dialect.ParseAck(dialect.AppendAck(nil, id))
	if err != nil {
		t.Fatal(err)
	}
	w.done(ack)
	select {
	case <-acked:
	default:
		t.Error("the acknowledgement did not reach its waiter")
	}
}
