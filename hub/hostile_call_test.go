package hub_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Invoke with the context of a call that is over gives a slot back that
// nobody holds.
func TestAnInvokeAfterItsCallGivesNoSlotBack(t *testing.T) {
	synctest.Test(t, invokeAfterItsCall)
}

func invokeAfterItsCall(t *testing.T) {
	var mu sync.Mutex
	var over []context.Context
	var running, most atomic.Int32
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Keep", hub.Action0(func(ctx context.Context, c *hub.Caller) error {
			mu.Lock()
			over = append(over, ctx)
			mu.Unlock()
			return nil
		}))
		h.Handle("One", hub.Action0(func(ctx context.Context, c *hub.Caller) error {
			n := running.Add(1)
			defer running.Add(-1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			time.Sleep(time.Second)
			return nil
		}))
		h.Handle("AskBack", hub.Func0(func(ctx context.Context, c *hub.Caller) (int, error) {
			return hub.Invoke[int](ctx, c.Clients().Client("nobody"), "Ask")
		}))
	})
	c := hubtest.Connect(t, h, hubtest.Options{})
	const n = 70
	for range n {
		if _, err := c.Invoke("Keep", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	for _, ctx := range over {
		hub.Invoke[int](ctx, h.Clients().Client("nobody"), "Ask")
	}
	mu.Unlock()
	var last string
	for range 8 {
		last = c.Begin("One")
	}
	for {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if string(m.InvocationID) == last {
			break
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d calls ran at once, want 1", most.Load())
	}
	_, err := c.Invoke("AskBack", nil, nil)
	if err == nil || err.Error() != "An unexpected error occurred invoking 'AskBack' on the server." {
		t.Errorf("a method asks: %v", err)
	}
}

// A cancel that hits the refused duplicate instead of the stream.
func TestACancelHitsTheStreamAndNotItsRefusedDuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan struct{})
		endA := make(chan struct{})
		h := start(t, hub.Options{OutboundMessages: 40}, streams, func(h *hub.Hub) {
			h.Handle("A", hub.Stream0(func(ctx context.Context, _ *hub.Caller) (iter.Seq2[int, error], error) {
				return func(yield func(int, error) bool) { <-endA }, nil
			}))
			h.Handle("S", hub.Stream0(func(ctx context.Context, _ *hub.Caller) (iter.Seq2[int, error], error) {
				return func(yield func(int, error) bool) { <-ctx.Done(); close(cancelled) }, nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		openStream(t, c, p, "a", "A", nil)
		openStream(t, c, p, "s", "S", nil)
		synctest.Wait()
		for range 36 { // the client does not read for a moment
			h.Clients().All().Send(t.Context(), "m", 1)
			synctest.Wait()
		}
		openStream(t, c, p, "s", "S", nil) // refused; its answer waits for room
		synctest.Wait()
		close(endA)
		synctest.Wait()
		c.Write(p.AppendCancelInvocation(nil, "s"))
		synctest.Wait()
		select {
		case <-cancelled:
		default:
			t.Error("the stream was not cancelled")
		}
		c.Drop()
	})
}

// Goexit inside a method.
func TestAMethodThatExitsItsGoroutine(t *testing.T) {
	for _, kind := range []string{"plain", "stream", "upload"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{MaximumStreamsPerConnection: 1}, streams, func(h *hub.Hub) {
					h.Handle("Exit", hub.Action0(func(context.Context, *hub.Caller) error { runtime.Goexit(); return nil }))
					h.Handle("ExitStream", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) { runtime.Goexit(); return nil, nil }))
					h.Handle("ExitUpload", hub.Action1(func(context.Context, *hub.Caller, *hub.Upload[int]) error { runtime.Goexit(); return nil }))
				})
				p := protocol.JSON{}
				c := hubtest.Connect(t, h, hubtest.Options{})
				switch kind {
				case "plain":
					c.Begin("Exit")
				case "stream":
					openStream(t, c, p, "s", "ExitStream", nil)
				case "upload":
					b, err := p.AppendInvocation(nil, "9", "ExitUpload", nil, "u")
					c.Write(record(t, b, err))
				}
				got := make(chan string, 10)
				go func() {
					for {
						m, err := c.Next()
						if err != nil {
							close(got)
							return
						}
						got <- fmt.Sprintf("type %d for %s: %s", m.Type, m.InvocationID, m.Error)
					}
				}()
				synctest.Wait()
				openStream(t, c, p, "s", "Count", []any{0})
				c.Begin("EchoString", "x")
				synctest.Wait()
				time.Sleep(time.Minute)
				c.Drop()
				n := 0
				for range got {
					n++
				}
				if n != 3 {
					t.Errorf("%d answers, want 3", n)
				}
			})
		})
	}
}
