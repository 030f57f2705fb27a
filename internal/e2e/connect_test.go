package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/hub"
)

// rage sends to everybody as fast as the nodes take it, until stop is called.
func rage(t testing.TB, nodes ...*node) (stop func()) {
	t.Helper()
	const backlog = 64 // messages between two looks at whether they got through
	ctx, cancel := context.WithCancel(t.Context())
	var raging sync.WaitGroup
	for _, n := range nodes {
		raging.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var err error
				if i%backlog == 0 {
					_, err = n.Clients().All().SendConfirmed(ctx, "m", "rage")
				} else {
					err = n.Clients().All().Send(ctx, "m", "rage")
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("broadcast: %v", err)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		raging.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func TestNothingComesBeforeTheHandshakeAnswer(t *testing.T) {
	clients, atOnce, longest := size(60, 500), size(25, 50), time.Duration(size(20, 200))*time.Millisecond
	cfg := nodeConfig{hub: hub.Options{KeepAliveInterval: 20 * time.Millisecond}}
	onOneAndTwo(t, func(t *testing.T, instances int) {
		here, there := startEnds(t, instances, cfg)
		stop := rage(t, here, there)
		var connecting errgroup.Group
		connecting.SetLimit(atOnce)
		for i := range clients {
			connecting.Go(func() error {
				p, err := dialPeer(there.url, protocolOf(i), 0)
				if err != nil {
					return err
				}
				defer p.drop()
				pause(t, rand.N(longest))
				if err := p.requestHandshake(); err != nil {
					return err
				}
				if err := p.more(); err != nil {
					return err
				}
				if string(p.buf) != "{}\x1e" || p.pinged {
					return fmt.Errorf("the first message is %.80q (after a ping: %v), want the handshake answer alone", p.buf, p.pinged)
				}
				p.buf = nil
				return p.expect("rage")
			})
		}
		if err := connecting.Wait(); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// A client whose queue is full as soon as it is registered is cut, but not
// before it has been told that its handshake was fine.
func TestTheHandshakeAnswerIsFirstEvenForAClientThatIsCut(t *testing.T) {
	clients := size(100, 500)
	cfg := nodeConfig{hub: hub.Options{OutboundMessages: 1}}
	onOneAndTwo(t, func(t *testing.T, instances int) {
		here, there := startEnds(t, instances, cfg)
		stop := rage(t, here, there)
		var connecting errgroup.Group
		connecting.SetLimit(20)
		for i := range clients {
			connecting.Go(func() error {
				p, err := dialPeer(there.url, protocolOf(i), 0)
				if err != nil {
					return err
				}
				defer p.drop()
				if err := p.requestHandshake(); err != nil {
					return err
				}
				if err := p.more(); err != nil {
					return err
				}
				if string(p.buf) != "{}\x1e" {
					return fmt.Errorf("the first message is %.80q, want the handshake answer", p.buf)
				}
				return nil
			})
		}
		if err := connecting.Wait(); err != nil {
			t.Error(err)
		}
		stop()
		eventually(t, 5*time.Second, func() string {
			if there.Stats().Disconnects[hub.ErrSlowConsumer.Reason()] == 0 {
				return "nobody was cut"
			}
			return ""
		})
	})
}

// A slowHub has a connect callback that joins groups and then takes its time.
type slowHub struct {
	gate                       chan struct{} // closed: callbacks may end
	begun, ended, disconnected atomic.Int64
	early                      atomic.Int64 // calls that ran before their callback had ended
}

func (s *slowHub) prepare(h *hub.Hub) {
	const done = "connected"
	h.OnConnected(func(ctx context.Context, c *hub.Caller) error {
		for _, group := range []string{"everybody", "own-" + c.UserID(), "unused"} {
			if err := c.AddToGroup(ctx, group); err != nil {
				return err
			}
		}
		s.begun.Add(1)
		select {
		case <-s.gate:
		case <-ctx.Done():
		}
		c.Set(done, true)
		s.ended.Add(1)
		return nil
	})
	h.OnDisconnected(func(context.Context, *hub.Caller, error) { s.disconnected.Add(1) })
	h.Handle("SendToOwn", hub.Action1(func(ctx context.Context, from *hub.Caller, text string) error {
		if from.Item(done) == nil {
			s.early.Add(1)
		}
		return from.Clients().Group("own-"+from.UserID()).Send(ctx, "m", text)
	}))
}

func TestCallsWaitForTheConnectCallback(t *testing.T) {
	clients, broken := size(100, 500), size(20, 100)
	for _, parallel := range []int{1, 4} {
		t.Run(fmt.Sprint(parallel, " calls at once"), func(t *testing.T) {
			onOneAndTwo(t, func(t *testing.T, instances int) {
				slow := &slowHub{gate: make(chan struct{})}
				here, there := startEnds(t, instances, nodeConfig{
					hub: hub.Options{MaximumParallelInvocationsPerClient: parallel}, prepare: slow.prepare,
				})
				testSlowConnect(t, slow, here, there, clients, broken)
			})
		})
	}
}

// openCallers opens clients that call at once, and as many connections as broken
// says whose handshake fails: those run no callback. It returns the ids of the
// calls too.
func openCallers(t testing.TB, n *node, clients, broken int) (peers []*peer, ids []string) {
	t.Helper()
	peers, ids = make([]*peer, clients), make([]string, clients)
	var opening errgroup.Group
	opening.SetLimit(50)
	for i := range peers {
		opening.Go(func() (err error) {
			peers[i], err = openPeer(n.url+fmt.Sprint("?user_id=u", i), protocolOf(i))
			if err != nil {
				return err
			}
			ids[i], err = peers[i].begin("SendToOwn", "own")
			return err
		})
	}
	for range broken {
		opening.Go(func() error {
			p, err := dialPeer(n.url, protocolOf(0), 0)
			if err != nil {
				return err
			}
			defer p.drop()
			return p.write([]byte("no handshake\x1e"))
		})
	}
	t.Cleanup(func() {
		for _, p := range peers {
			if p != nil {
				p.drop()
			}
		}
	})
	if err := opening.Wait(); err != nil {
		t.Fatal(err)
	}
	return peers, ids
}

func testSlowConnect(t *testing.T, slow *slowHub, here, there *node, clients, broken int) {
	peers, ids := openCallers(t, there, clients, broken)
	eventually(t, 20*time.Second, func() string {
		if n := slow.begun.Load(); n != int64(clients) {
			return fmt.Sprintf("%d callbacks have begun, want %d", n, clients)
		}
		return ""
	})
	send := func(text string) {
		t.Helper()
		if err := here.Clients().Group("everybody").Send(t.Context(), "m", text); err != nil {
			t.Fatal(err)
		}
	}
	send("during") // the callback has joined already
	for i, p := range peers {
		if err := p.expect("during"); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	if n := there.Stats().Invocations; n != 0 {
		t.Errorf("%d calls have run during the callbacks", n)
	}
	close(slow.gate)
	for i, p := range peers {
		if _, err := p.answer(ids[i]); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	send("after")
	for i, p := range peers {
		// Messages of two senders to two groups: in either order.
		first, err1 := p.receive()
		second, err2 := p.receive()
		if err := errors.Join(err1, err2); err != nil || min(first, second) != "after" || max(first, second) != "own" {
			t.Errorf("client %d: received %q and %q, %v, want \"own\" and \"after\"", i, first, second, err)
		}
		p.drop()
	}
	if n := slow.early.Load(); n != 0 {
		t.Errorf("%d calls have run before their callback had ended", n)
	}
	eventually(t, 10*time.Second, func() string {
		if n := slow.disconnected.Load(); n != int64(clients) || slow.ended.Load() != n {
			return fmt.Sprintf("%d connect and %d disconnect callbacks have ended, want %d", slow.ended.Load(), n, clients)
		}
		return ""
	})
}
