package hub_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A reply is what a client answers to a question.
type reply func(p protocol.Protocol, id string) []byte

func withResult(v any) reply {
	return func(p protocol.Protocol, id string) []byte {
		b, err := p.AppendResult(nil, id, v)
		if err != nil {
			panic(err)
		}
		return b
	}
}

// asked reads the next question.
func asked(t testing.TB, c *hubtest.Client) *protocol.Message {
	t.Helper()
	m, err := c.Next()
	if err != nil || m.Type != protocol.Invocation || len(m.InvocationID) == 0 {
		t.Fatalf("got type %d, id %q, %v; want a question", m.Type, m.InvocationID, err)
	}
	return m
}

// result is what Invoke returned.
type result[R any] struct {
	value R
	err   error
}

// invoke asks on a goroutine of its own.
func invoke[R any](ctx context.Context, to hub.SingleClient, target string, args ...any) <-chan result[R] {
	got := make(chan result[R], 1)
	go func() {
		v, err := hub.Invoke[R](ctx, to, target, args...)
		got <- result[R]{v, err}
	}()
	return got
}

func TestAClientAnswersFromEitherInstance(t *testing.T) {
	for _, p := range protocols() {
		for _, where := range []string{"the same instance", "another instance"} {
			t.Run(p.Name()+" on "+where, func(t *testing.T) {
				b := memory.New()
				here := start(t, hub.Options{Backplane: connectMemory(t, b)})
				asking := here
				if where == "another instance" {
					asking = start(t, hub.Options{Backplane: connectMemory(t, b)})
				}
				c := hubtest.Connect(t, here, hubtest.Options{Protocol: p})
				if _, err := c.Invoke("Join", []any{"g"}, nil); err != nil { // its channels are live
					t.Fatal(err)
				}
				to := asking.Clients().Client(c.ID())
				for _, tt := range []struct {
					name   string
					answer reply
					want   string
				}{
					{"a number", withResult(42), "42 <nil>"},
					{"zero", withResult(0), "0 <nil>"},
					{"an error", func(p protocol.Protocol, id string) []byte { return p.AppendError(nil, id, "client text") }, "0 client text"},
					{"no result", func(p protocol.Protocol, id string) []byte { return p.AppendVoid(nil, id) }, "0 The client answered without a result."},
				} {
					got := invoke[int](t.Context(), to, "Ask", "x")
					q := asked(t, c)
					if string(q.Target) != "Ask" || len(q.Arguments) != 1 {
						t.Fatalf("asked %s with %d arguments", q.Target, len(q.Arguments))
					}
					c.Write(tt.answer(p, string(q.InvocationID)))
					r := <-got
					var forClient *hub.Error
					if s := fmt.Sprint(r.value, r.err); s != tt.want || r.err != nil && !errors.As(r.err, &forClient) {
						t.Errorf("%s: %s (%T), want %s", tt.name, s, r.err, tt.want)
					}
					c.Write(tt.answer(p, string(q.InvocationID))) // a second time: nobody's
				}
				for name, v := range map[string]any{"null": nil, "false": false, "empty": ""} {
					got := invoke[any](t.Context(), to, "Ask")
					c.Write(withResult(v)(p, string(asked(t, c).InvocationID)))
					if r := <-got; r.value != v || r.err != nil {
						t.Errorf("%s: got %v, %v", name, r.value, r.err)
					}
				}
				got := invoke[int](t.Context(), to, "Ask")
				c.Write(withResult("text")(p, string(asked(t, c).InvocationID)))
				if r := <-got; r.err == nil {
					t.Error("text was taken for a number")
				}
				if n := here.Stats().PendingResults + asking.Stats().PendingResults; n != 0 {
					t.Errorf("%d results are still waited for", n)
				}
				if v, err := c.Invoke("EchoString", []any{"on"}, nil); err != nil || v != "on" {
					t.Errorf("the connection does not go on: %v, %v", v, err)
				}
			})
		}
	}
}

func TestNobodyIsAskedInVain(t *testing.T) {
	b := memory.New()
	one := start(t, hub.Options{Backplane: connectMemory(t, b)})
	two := start(t, hub.Options{Backplane: connectMemory(t, b)})
	alone := start(t, hub.Options{})
	for name, h := range map[string]*hub.Hub{"in a fleet": one, "alone": alone} {
		if _, err := hub.Invoke[int](t.Context(), h.Clients().Client("nobody"), "Ask"); !errors.Is(err, hub.ErrConnectionNotFound) {
			t.Errorf("%s: %v, want ErrConnectionNotFound", name, err)
		}
	}
	for name, asking := range map[string]*hub.Hub{"here": one, "elsewhere": two} {
		c := hubtest.Connect(t, one, hubtest.Options{})
		if _, err := c.Invoke("Join", []any{"g"}, nil); err != nil {
			t.Fatal(err)
		}
		got := invoke[int](t.Context(), asking.Clients().Client(c.ID()), "Ask")
		asked(t, c)
		c.Drop()
		if r := <-got; !errors.Is(r.err, hub.ErrConnectionNotFound) {
			t.Errorf("asked %s, then gone: %v, want ErrConnectionNotFound", name, r.err)
		}
		<-c.Over()
	}
	if n := one.Stats().PendingResults + two.Stats().PendingResults; n != 0 {
		t.Errorf("%d results are still waited for", n)
	}
}

func TestAQuestionHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{})
		began := time.Now()
		got := invoke[int](t.Context(), h.Clients().Client(c.ID()), "Ask")
		late := asked(t, c)
		if r := <-got; !errors.Is(r.err, hub.ErrNoAnswer) || time.Since(began) != hub.DefaultClientResultTimeout {
			t.Errorf("%v after %v, want ErrNoAnswer after %v", r.err, time.Since(began), hub.DefaultClientResultTimeout)
		}
		c.Write(withResult(1)(protocol.JSON{}, string(late.InvocationID)))
		ctx, cancel := context.WithCancel(t.Context())
		got = invoke[int](ctx, h.Clients().Client(c.ID()), "Ask")
		asked(t, c)
		cancel()
		if r := <-got; !errors.Is(r.err, context.Canceled) {
			t.Errorf("%v, want the context's error", r.err)
		}
		if v, err := c.Invoke("EchoString", []any{"on"}, nil); err != nil || v != "on" {
			t.Errorf("the connection does not go on: %v, %v", v, err)
		}
		if s := h.Stats(); s.StrayAnswers != 1 || s.PendingResults != 0 {
			t.Errorf("%d strays, %d pending; want 1 and 0", s.StrayAnswers, s.PendingResults)
		}
	})
}

func TestOnlyWhoWasAskedMayAnswer(t *testing.T) {
	h := start(t, hub.Options{EnableDetailedErrors: true})
	c := hubtest.Connect(t, h, hubtest.Options{})
	thief := hubtest.Connect(t, h, hubtest.Options{})
	got := invoke[int](t.Context(), h.Clients().Client(c.ID()), "Ask")
	q := asked(t, c)
	thief.Write(withResult(666)(protocol.JSON{}, string(q.InvocationID)))
	m, err := thief.Next()
	want := fmt.Sprintf("Connection closed with an error. InvalidOperationException: Connection ID '%s' is not valid for invocation ID '%s'.", thief.ID(), q.InvocationID)
	if err != nil || m.Type != protocol.Close || string(m.Error) != want || !m.AllowReconnect {
		t.Errorf("the thief got type %d, %q, %v; want %q", m.Type, m.Error, err, want)
	}
	c.Write(withResult(1)(protocol.JSON{}, string(q.InvocationID)))
	if r := <-got; r.value != 1 || r.err != nil {
		t.Errorf("got %v, %v, want 1", r.value, r.err)
	}
}

// TestAMethodAsksItsCaller: the answer comes even though calls wait behind the
// method, and the client may call in turn before it answers.
func TestAMethodAsksItsCaller(t *testing.T) {
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("AskBack", hub.Func0(func(ctx context.Context, c *hub.Caller) (int, error) {
			return hub.Invoke[int](ctx, c.Clients().Caller(), "Ask")
		}))
	})
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	id := c.Begin("AskBack")
	q := asked(t, c)
	if v, err := c.Invoke("EchoString", []any{"first this"}, nil); err != nil || v != "first this" {
		t.Fatalf("a call while the method waits: %v, %v", v, err)
	}
	c.Write(withResult(7)(p, string(q.InvocationID)))
	m, err := c.Next()
	if err != nil || string(m.InvocationID) != id || string(m.Value) != "7" {
		t.Fatalf("type %d, %q, %v; want the method's 7", m.Type, m.Value, err)
	}
	c.Send("AskBack") // one that wants no completion may ask as well
	c.Write(withResult(7)(p, string(asked(t, c).InvocationID)))

	const waiting = 64
	var ids []string
	for len(ids) <= waiting {
		c.Begin("AskBack")
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == protocol.Completion { // refused
			break
		}
		ids = append(ids, string(m.InvocationID))
	}
	// The method before may have been on its way out still.
	if len(ids) < waiting-1 || len(ids) > waiting {
		t.Errorf("%d methods wait for their caller, want %d", len(ids), waiting)
	}
	for _, id := range ids {
		c.Write(withResult(1)(p, id))
		if m, err := c.Next(); err != nil || m.HasError {
			t.Fatalf("%q, %v", m.Error, err)
		}
	}
	if v, err := c.Invoke("EchoString", []any{"on"}, nil); err != nil || v != "on" {
		t.Errorf("the connection does not go on: %v, %v", v, err)
	}
}

func BenchmarkClientResult(b *testing.B) {
	for _, where := range []string{"same instance", "two instances"} {
		b.Run(where, func(b *testing.B) {
			broker := memory.New()
			here := start(b, hub.Options{Backplane: connectMemory(b, broker)})
			asking := here
			if where == "two instances" {
				asking = start(b, hub.Options{Backplane: connectMemory(b, broker)})
			}
			c := hubtest.Connect(b, here, hubtest.Options{})
			if _, err := c.Invoke("Join", []any{"g"}, nil); err != nil {
				b.Fatal(err)
			}
			go func() {
				for {
					m, err := c.Next()
					if err != nil {
						return
					}
					c.Write(withResult(1)(protocol.JSON{}, string(m.InvocationID)))
				}
			}()
			to := asking.Clients().Client(c.ID())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := hub.Invoke[int](b.Context(), to, "Ask", 1); err != nil {
					b.Fatal(err)
				}
			}
			c.Drop()
		})
	}
}
