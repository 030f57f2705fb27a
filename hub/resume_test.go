package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A resumer is a client with stateful reconnects, by the letter: it numbers
// what it sends and receives, acknowledges, and sends again.
type resumer struct {
	t *testing.T
	*hubtest.Client
	proto protocol.Protocol

	sent     [][]byte // not acknowledged
	released int64    // by the server
	counter  int64    // of the records on this socket
	received int64    // handled
	waiting  bool     // for the Sequence
	got      []string // first arguments of what was handled
	acks     int
}

func newResumer(t *testing.T, h *hub.Hub, p protocol.Protocol, id string) *resumer {
	return &resumer{t: t, proto: p, Client: hubtest.Connect(t, h, hubtest.Options{Protocol: p, Stateful: true, ConnectionID: id})}
}

func (r *resumer) send(target string, args ...any) {
	r.t.Helper()
	b, err := r.proto.AppendInvocation(nil, "", target, args)
	if err != nil {
		r.t.Fatal(err)
	}
	r.sent = append(r.sent, b)
	r.Write(b)
}

// next handles records until an invocation was handled.
func (r *resumer) next() error {
	for {
		m, err := r.Next()
		if err != nil {
			return err
		}
		switch {
		case m.Type == protocol.Sequence:
			if m.SequenceID > r.received+1 {
				return fmt.Errorf("sequence %d after %d", m.SequenceID, r.received)
			}
			r.counter, r.waiting = m.SequenceID-1, false
		case r.waiting:
			return fmt.Errorf("type %d before the Sequence", m.Type)
		case m.Type == protocol.Ack:
			r.acks++
			for r.released < m.SequenceID {
				r.released++
				r.sent = r.sent[1:]
			}
		case m.Type == protocol.Close:
			return fmt.Errorf("closed: %s", m.Error)
		case m.Type == protocol.Invocation:
			if r.counter++; r.counter <= r.received {
				if r.counter == r.received { // the server has not seen the last Ack
					r.ack()
				}
				continue
			}
			r.received = r.counter
			v, err := protocol.Decode[string](r.proto, m.Arguments[0])
			if err != nil {
				return err
			}
			r.got = append(r.got, v)
			return nil
		}
	}
}

// resume gets another socket and sends again what may be lost.
func (r *resumer) resume() {
	r.t.Helper()
	if !r.Reattach() {
		r.t.Fatal("the other socket was refused")
	}
	r.waiting = true
	r.Write(r.proto.AppendSequence(nil, r.released+1))
	for _, b := range r.sent {
		r.Write(b)
	}
}

func (r *resumer) ack() { r.Write(r.proto.AppendAck(nil, r.received)) }

func TestNothingIsLostOrRepeatedOverManySockets(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			bp := memory.New()
			var heard []string
			listen := func(h *hub.Hub) {
				h.Handle("Say", hub.Action1(func(_ context.Context, _ *hub.Caller, s string) error {
					heard = append(heard, s)
					return nil
				}))
			}
			h := start(t, hub.Options{Backplane: connectMemory(t, bp)}, listen)
			other := start(t, hub.Options{Backplane: connectMemory(t, bp)})
			r := newResumer(t, h, p, "")
			r.send("Join", "g")
			const rounds, each = 40, 25
			sent, said := 0, 0
			for round := range rounds {
				for range each {
					var err error
					switch sent % 3 { // from here, from the other instance, to the one connection
					case 0:
						err = h.Clients().All().Send(t.Context(), "m", strconv.Itoa(sent))
					case 1:
						err = other.Clients().All().Send(t.Context(), "m", strconv.Itoa(sent))
					default:
						// The same queue as All: one order.
						err = other.Clients().All().Send(t.Context(), "m", strconv.Itoa(sent))
					}
					if err != nil {
						t.Fatal(err)
					}
					sent++
					if said < sent {
						r.send("Say", strconv.Itoa(said))
						said++
					}
				}
				for len(r.got) < sent-each/2 {
					if err := r.next(); err != nil {
						t.Fatal(err)
					}
				}
				if round%3 == 0 {
					r.ack()
				}
				r.Cut()
				r.resume()
			}
			for len(r.got) < sent {
				if err := r.next(); err != nil {
					t.Fatal(err)
				}
			}
			for i, v := range r.got {
				if v != strconv.Itoa(i) {
					t.Fatalf("message %d is %q, want every message once and in order", i, v)
				}
			}
			if _, err := r.Invoke("EchoString", []any{"x"}, nil); err != nil { // behind everything said
				t.Fatal(err)
			}
			for i, v := range heard {
				if v != strconv.Itoa(i) {
					t.Fatalf("call %d is %q, want every call once and in order", i, v)
				}
			}
			if len(heard) != said {
				t.Errorf("%d calls arrived, want %d", len(heard), said)
			}
		})
	}
}

func TestTheCallbacksDoNotRunForALostSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		h := start(t, hub.Options{}, l.watch)
		r := newResumer(t, h, protocol.JSON{}, "")
		r.send("Join", "g")
		synctest.Wait()
		r.Cut()
		time.Sleep(hubtest.ReattachTime - time.Second)
		r.resume()
		if err := h.Clients().Group("g").Send(t.Context(), "m", "still a member"); err != nil {
			t.Fatal(err)
		}
		if err := r.next(); err != nil {
			t.Fatal(err)
		}
		if l.connected.Load() != 1 || l.disconnected.Load() != 0 {
			t.Errorf("callbacks ran %d and %d times, want 1 and 0", l.connected.Load(), l.disconnected.Load())
		}
		r.Cut()
		time.Sleep(hubtest.ReattachTime + time.Second)
		<-r.Over()
		if l.disconnected.Load() != 1 {
			t.Errorf("OnDisconnected ran %d times after the time for another socket, want once", l.disconnected.Load())
		}
		if h.Stats().QueuedBytes != 0 {
			t.Errorf("%d bytes are still queued", h.Stats().QueuedBytes)
		}
	})
}

func TestAClientHearsWithinASecondWhatHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		r := newResumer(t, h, protocol.JSON{}, "")
		for range 3 {
			r.send("Join", "g")
		}
		began := time.Now()
		m, err := r.Next()
		if err != nil || m.Type != protocol.Ack || m.SequenceID != 3 {
			t.Fatalf("got type %d, number %d, %v; want an Ack of 3", m.Type, m.SequenceID, err)
		}
		if d := time.Since(began); d > time.Second+100*time.Millisecond {
			t.Errorf("the Ack came after %v", d)
		}
	})
}

func TestTheWriterWaitsForAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{StatefulReconnectBufferSize: 1000})
		r := newResumer(t, h, protocol.JSON{}, "")
		const messages = 100
		for i := range messages {
			if err := h.Clients().All().Send(t.Context(), "m", strconv.Itoa(i)+strings.Repeat(" ", 100)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		got := 0
		for range messages {
			if err := r.next(); err != nil {
				t.Fatal(err)
			}
			if got++; got%5 == 0 {
				r.ack()
			}
		}
		if err := h.Clients().All().Send(t.Context(), "m", strings.Repeat("x", 1100)); err != nil {
			t.Fatal(err)
		}
		if err := h.Clients().All().Send(t.Context(), "m", "never"); err != nil {
			t.Fatal(err)
		}
		r.ack()
		if err := r.next(); err != nil {
			t.Fatal(err)
		}
		if err := r.next(); err == nil || !strings.Contains(err.Error(), "SlowConsumer") && !errors.Is(err, io.EOF) {
			t.Errorf("got %v, %q; want the end as a slow consumer", err, r.got[len(r.got)-1])
		}
	})
}

// TestALostAckHoldsNothingUp: the client has everything, its Ack went down with
// the socket, and it acknowledges again only at the last record that it knows.
func TestALostAckHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{StatefulReconnectBufferSize: 300})
		r := newResumer(t, h, protocol.JSON{}, "")
		const messages = 40
		for i := range messages {
			if err := h.Clients().All().Send(t.Context(), "m", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range messages {
			if i%3 == 0 {
				r.Cut()
				r.resume()
			}
			if err := r.next(); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if i%3 != 1 { // else the Ack is lost
				r.ack()
			}
		}
	})
}

func TestASequenceFromTheFutureEndsTheConnection(t *testing.T) {
	h := start(t, hub.Options{EnableDetailedErrors: true})
	r := newResumer(t, h, protocol.JSON{}, "")
	r.Write(r.proto.AppendSequence(nil, 2))
	m, err := r.Next()
	const want = "Connection closed with an error. InvalidOperationException: Sequence ID greater than amount of messages we've received."
	if err != nil || m.Type != protocol.Close || string(m.Error) != want || !m.AllowReconnect {
		t.Errorf("got type %d, %q, %v; want %q", m.Type, m.Error, err, want)
	}
}

func TestAnAbortedConnectionTakesNoOtherSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{}, func(h *hub.Hub) {
			h.Handle("Abort", hub.Action0(func(_ context.Context, c *hub.Caller) error { c.Abort(); return nil }))
		})
		r := newResumer(t, h, protocol.JSON{}, "")
		r.send("Abort")
		if m, err := r.Next(); err != nil || m.Type != protocol.Close {
			t.Fatalf("got type %d, %v, want a Close", m.Type, err)
		}
		if r.Reattach() {
			t.Error("another socket was taken after the Close")
		}
	})
}

func TestVersionOneIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{Stateful: true, NoHandshake: true})
		c.Write(protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: "json", Version: 1}))
		if text, err := c.Handshake(); text != "" || err != nil {
			t.Fatalf("handshake: %q, %v", text, err)
		}
		c.Cut()
		<-c.Over()
	})
}
