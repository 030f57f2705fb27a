package hub_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A lateReceivers is a backplane whose Receivers answers late.
type lateReceivers struct {
	hub.Backplane
	asked  chan struct{}
	answer chan int
}

func (l *lateReceivers) Receivers(ctx context.Context, channel string) (int, error) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	select {
	case n := <-l.answer:
		if n < 0 {
			return 0, errors.New("away")
		}
		return n, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestAnAnswerCountsAlthoughTheClientHasLeftSince: the client answers and leaves before the look at its channel comes back.
func TestAnAnswerCountsAlthoughTheClientHasLeftSince(t *testing.T) {
	for name, n := range map[string]int{"gone": 0, "backplane away": -1} {
		t.Run(name, func(t *testing.T) {
			b := memory.New()
			late := &lateReceivers{Backplane: connectMemory(t, b), asked: make(chan struct{}, 1), answer: make(chan int, 1)}
			here := start(t, hub.Options{Backplane: connectMemory(t, b)})
			asking := start(t, hub.Options{Backplane: late})
			c := hubtest.Connect(t, here, hubtest.Options{})
			if _, err := c.Invoke("Join", []any{"g"}, nil); err != nil {
				t.Fatal(err)
			}
			got := invoke[int](t.Context(), asking.Clients().Client(c.ID()), "Ask")
			q := asked(t, c)
			<-late.asked
			c.Write(withResult(42)(protocol.JSON{}, string(q.InvocationID)))
			for asking.Stats().PendingResults != 0 { // the answer has arrived
				runtime.Gosched()
			}
			c.HangUp()
			<-c.Over()
			late.answer <- n
			if r := <-got; r.value != 42 || r.err != nil {
				t.Errorf("got %d, %v; want the answer, 42", r.value, r.err)
			}
		})
	}
}

func TestTheAskedInstanceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		asking := start(t, hub.Options{Backplane: connectMemory(t, b)})
		h, err := hub.New(hub.Options{Name: "Test.Hub", Backplane: connectMemory(t, b)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		<-h.Ready()
		c := hubtest.Connect(t, h, hubtest.Options{})
		synctest.Wait()
		got := invoke[int](t.Context(), asking.Clients().Client(c.ID()), "Ask")
		asked(t, c)
		began := time.Now()
		cancel()
		r := <-got
		if !errors.Is(r.err, hub.ErrConnectionNotFound) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", r.err, time.Since(began))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := asking.Stats().PendingResults + h.Stats().PendingResults; n != 0 {
			t.Errorf("%d pending", n)
		}
	})
}

func TestTenThousandQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{})
		go func() {
			for {
				if _, err := c.Next(); err != nil {
					return
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		var full, other atomic.Int32
		for range 10_100 {
			go func() {
				_, err := hub.Invoke[int](ctx, h.Clients().Client(c.ID()), "Ask")
				if errors.Is(err, hub.ErrUnavailable) {
					full.Add(1)
				} else if !errors.Is(err, context.Canceled) {
					other.Add(1)
				}
			}()
		}
		synctest.Wait()
		if full.Load() != 100 || h.Stats().PendingResults != 10_000 {
			t.Errorf("%d refused, %d pending", full.Load(), h.Stats().PendingResults)
		}
		cancel()
		synctest.Wait()
		if h.Stats().PendingResults != 0 || other.Load() != 0 {
			t.Errorf("%d pending, %d other", h.Stats().PendingResults, other.Load())
		}
		c.Drop()
		<-c.Over()
	})
}

func TestCallbacksThatExitTheirGoroutine(t *testing.T) {
	for _, which := range []string{"OnConnected", "OnDisconnected"} {
		t.Run(which, func(t *testing.T) {
			h := start(t, hub.Options{CloseTimeout: 100 * time.Millisecond}, func(h *hub.Hub) {
				if which == "OnConnected" {
					h.OnConnected(func(context.Context, *hub.Caller) error { runtime.Goexit(); return nil })
				} else {
					h.OnConnected(func(ctx context.Context, c *hub.Caller) error { return c.AddToGroup(ctx, "g") })
					h.OnDisconnected(func(context.Context, *hub.Caller, error) { runtime.Goexit() })
				}
			})
			c := hubtest.Connect(t, h, hubtest.Options{Identity: &hub.Identity{UserID: "u"}})
			if which == "OnDisconnected" {
				c.Invoke("EchoString", []any{"x"}, nil)
			}
			c.Drop()
			select {
			case <-c.Over():
			case <-time.After(2 * time.Second):
				panic("the connection never ends") // the test's cleanup would hang
			}
			if s := h.Stats(); s.Connections != 0 || s.Groups != 0 || s.Users != 0 {
				t.Errorf("left: %d connections, %d groups, %d users", s.Connections, s.Groups, s.Users)
			}
		})
	}
}

func TestHugeItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := 0
		h := start(t, hub.Options{MaximumReceiveMessageSize: 8 << 20, StreamBufferCapacity: 1}, func(h *hub.Hub) {
			h.Handle("Later", hub.Action1(func(ctx context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-release
				for s, err := range in.All() {
					if err != nil {
						return err
					}
					n += len(s)
				}
				return nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		b, _ := p.AppendInvocation(nil, "1", "Later", nil, "u")
		c.Write(b)
		big := strings.Repeat("x", 3<<20)
		for range 8 {
			item(t, c, p, "u", big)
		}
		c.Write(p.AppendVoid(nil, "u"))
		synctest.Wait()
		close(release)
		began := time.Now()
		m, err := c.Next()
		if err != nil || m.HasError || n != 8*len(big) || time.Since(began) != 0 {
			t.Errorf("%v %s %d %v", err, m.Error, n, time.Since(began))
		}
	})
}
