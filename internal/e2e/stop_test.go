package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// stopLimit is how long anything may take to end.
const stopLimit = 5 * time.Second

// A busybody ends connections and sends messages from every callback.
type busybody struct {
	kick func(user string) bool // says whose connect callback kicks him

	mu                    sync.Mutex
	callers               map[*hub.Caller]struct{}
	connects, disconnects atomic.Int64
}

func newBusybody(kick func(user string) bool) *busybody {
	return &busybody{kick: kick, callers: map[*hub.Caller]struct{}{}}
}

func (b *busybody) prepare(h *hub.Hub) {
	h.OnConnected(func(ctx context.Context, c *hub.Caller) error {
		b.connects.Add(1)
		if err := c.AddToGroup(ctx, "g"); err != nil && c.Context().Err() == nil {
			return err
		}
		b.mu.Lock()
		b.callers[c] = struct{}{}
		b.mu.Unlock()
		if b.kick(c.UserID()) {
			c.Abort()
			// Its own end must not keep it from anything.
			return c.Clients().Group("g").Send(context.WithoutCancel(ctx), "m", "kicked")
		}
		return nil
	})
	h.OnDisconnected(func(ctx context.Context, c *hub.Caller, _ error) {
		b.mu.Lock()
		delete(b.callers, c)
		b.mu.Unlock()
		_ = c.Clients().Group("g").Send(ctx, "m", "gone") // the backplane may be closed already
		_ = c.RemoveFromGroup(ctx, "g")
		b.disconnects.Add(1)
	})
	h.Handle("KickAll", hub.Action0(func(ctx context.Context, from *hub.Caller) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for c := range b.callers {
			c.Abort()
		}
		return from.Clients().All().Send(ctx, "m", "all kicked")
	}))
}

// noise keeps peers sending to their group, tiny queues notwithstanding, until
// their connections end; peers read only now and then.
func (b *busybody) noise(t testing.TB, n *node, peers int) *sync.WaitGroup {
	t.Helper()
	var noisy sync.WaitGroup
	for i := range peers {
		p, err := openPeer(n.url+fmt.Sprint("?user_id=noisy", i), protocolOf(i))
		if err != nil {
			continue // cut at once: its queue was full before it could read
		}
		t.Cleanup(p.drop)
		noisy.Go(func() {
			for p.send("Group", "g", "noise") == nil {
			}
		})
		noisy.Go(func() {
			for {
				if _, err := p.next(); err != nil {
					p.drop() // ends the sender too
					return
				}
			}
		})
	}
	return &noisy
}

// tiny are options that make every queue full at once.
func tiny() hub.Options {
	return hub.Options{
		OutboundMessages: 8, InvocationQueue: 1, MaximumParallelInvocationsPerClient: 2,
		WriteTimeout: time.Second, CloseTimeout: time.Second / 2, KeepAliveInterval: 100 * time.Millisecond,
	}
}

func TestAConnectCallbackMayKickItsOwnConnection(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, instances int) {
		const clients = 100
		b := newBusybody(func(user string) bool { return user == "unwanted" })
		cfg := nodeConfig{prepare: b.prepare}
		_, n := startEnds(t, instances, cfg)
		within(t, 2*stopLimit, "kicking", func() {
			var all errgroup.Group
			all.SetLimit(20)
			for i := range clients {
				all.Go(func() error {
					p, err := openPeer(n.url+"?user_id=unwanted", protocolOf(i))
					if err != nil {
						return err
					}
					defer p.drop()
					for {
						m, err := p.next()
						if err != nil {
							return fmt.Errorf("ended without a Close record: %w", err)
						}
						if m.Type == protocol.Close {
							if m.AllowReconnect {
								return fmt.Errorf("the kicked one may come back")
							}
							return nil
						}
					}
				})
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
		})
		expectNobody(t, []*node{n})
		if c, d := b.connects.Load(), b.disconnects.Load(); c != clients || d != clients {
			t.Errorf("%d connect and %d disconnect callbacks, want %d", c, d, clients)
		}
		if got := n.Stats().Disconnects[hub.ErrAborted.Reason()]; got != clients {
			t.Errorf("%d ended as aborted, want %d", got, clients)
		}
	})
}

// However a hub is ended, under load and with tiny queues, it ends soon.
func TestAHubEndsSoonUnderLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, n *node)
	}{
		{"all kicked from a method", func(t *testing.T, n *node) {
			p := mustOpen(t, n.url+"?user_id=operator", protocolOf(0))
			if err := p.send("KickAll"); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := p.next(); err != nil {
					return
				}
			}
		}},
		{"stopped", func(_ *testing.T, n *node) { n.stop() }},
		{"shut down politely", func(t *testing.T, n *node) {
			ctx, cancel := context.WithTimeout(t.Context(), stopLimit/2)
			defer cancel()
			_ = n.Shutdown(ctx) // the slow ones are dropped at the end of the context
			n.stop()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onOneAndTwo(t, func(t *testing.T, instances int) {
				b := newBusybody(func(string) bool { return false })
				_, n := startEnds(t, instances, nodeConfig{hub: tiny(), prepare: b.prepare})
				noisy := b.noise(t, n, 6)
				within(t, stopLimit, tt.name, func() { tt.end(t, n) })
				within(t, stopLimit, "the ends of the clients", noisy.Wait)
				eventually(t, stopLimit, func() string {
					if c, d := b.connects.Load(), b.disconnects.Load(); c != d {
						return fmt.Sprintf("%d connect and %d disconnect callbacks", c, d)
					}
					return ""
				})
			})
		})
	}
}
