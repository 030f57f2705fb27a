package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// expectChannels fails the test unless exactly these channels have subscribers
// in time.
func expectChannels(t testing.TB, rs *redistest.Server, limit time.Duration, want []string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, limit, func() string {
		got := rs.Channels()
		if slices.Equal(got, want) {
			return ""
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return slices.Contains(got, s) })
		extra := slices.DeleteFunc(got, func(s string) bool { return slices.Contains(want, s) })
		return fmt.Sprintf("%d channels with subscribers, want %d; %d missing (%.5q), %d too many (%.5q)",
			len(got), len(want), len(missing), missing[:min(5, len(missing))], len(extra), extra[:min(5, len(extra))])
	})
}

func TestOneMembershipHoweverOftenJoined(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, instances int) {
		here, there := startEnds(t, instances, nodeConfig{})
		for _, p := range protocols() {
			t.Run(p.Name(), func(t *testing.T) {
				member := mustOpen(t, there.url, p)
				send := func(text string) {
					t.Helper()
					if err := here.Clients().Group("g").Send(t.Context(), "m", text); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					if err := member.call("Join", "g"); err != nil {
						t.Fatal(err)
					}
				}
				send("one")
				if err := member.expect("one"); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second is no error
					if err := member.call("Leave", "g"); err != nil {
						t.Fatal(err)
					}
					send("none")
				}
				if err := here.Clients().All().Send(t.Context(), "m", "end"); err != nil {
					t.Fatal(err)
				}
				if err := member.expect("end"); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// lateCloseTimeout is how long a call that is under way keeps a connection that
// its client has closed politely.
const lateCloseTimeout = 200 * time.Millisecond

// lateJoiner has methods that join a group when their connection has ended.
type lateJoiner struct {
	begun, joined chan error    // one element per call
	gone          chan struct{} // closed by the test when all connections are over
}

func (l *lateJoiner) prepare(h *hub.Hub) {
	h.Handle("JoinLate", hub.Action2(func(_ context.Context, from *hub.Caller, group string, wait string) error {
		l.begun <- nil
		<-from.Context().Done()
		if wait == "until all is over" {
			<-l.gone
		}
		err := from.AddToGroup(context.WithoutCancel(from.Context()), group)
		l.joined <- err
		return err
	}))
}

func TestJoiningAfterTheEndLeavesNothing(t *testing.T) {
	connections := size(40, 200)
	l := &lateJoiner{begun: make(chan error, connections), joined: make(chan error, connections), gone: make(chan struct{})}
	rs, nodes := startNodes(t, 2, nodeConfig{prepare: l.prepare, hub: hub.Options{CloseTimeout: lateCloseTimeout}})
	standing := rs.Channels()
	goOn := sync.OnceFunc(func() { close(l.gone) })
	t.Cleanup(goOn) // the nodes wait for the methods
	clients := make([]*client.Client, connections)
	ids := make([]string, connections)
	for i := range clients {
		clients[i] = connect(t, client.Options{URL: nodes[i%2].url, Protocol: protocolOf(i / 2)})
		ids[i] = clients[i].ConnectionID()
		wait := []string{"until all is over", "not at all"}[i/4%2]
		if err := clients[i].Send(t.Context(), "JoinLate", fmt.Sprint("late", i), wait); err != nil {
			t.Fatal(err)
		}
	}
	for range clients {
		<-l.begun
	}
	var stopping errgroup.Group
	for _, c := range clients {
		stopping.Go(func() error { return c.Stop(t.Context()) })
	}
	if err := stopping.Wait(); err != nil {
		t.Fatal(err)
	}
	over := func() string {
		for i, n := range nodes {
			if s := n.Stats(); s.Connections != 0 || s.Groups != 0 || s.Users != 0 {
				return fmt.Sprintf("instance %d has %d connections, %d groups and %d users", i, s.Connections, s.Groups, s.Users)
			}
		}
		return ""
	}
	eventually(t, 10*time.Second, over)
	goOn()
	refused := 0
	for range connections {
		// Right at its end a connection may still be let in: it leaves again.
		if err := <-l.joined; errors.Is(err, hub.ErrConnectionNotFound) {
			refused++
		} else if err != nil {
			t.Errorf("joining late: %v, want nothing or %v", err, hub.ErrConnectionNotFound)
		}
	}
	if refused < connections/2 {
		t.Errorf("%d late joins were refused, want at least %d", refused, connections/2)
	}
	eventually(t, 5*time.Second, over)
	expectChannels(t, rs, 5*time.Second, standing)
	for i, id := range ids { // asked from the other instance
		if err := nodes[(i+1)%2].AddToGroup(t.Context(), id, "g"); !errors.Is(err, hub.ErrConnectionNotFound) {
			t.Fatalf("adding a connection that is over: %v, want %v", err, hub.ErrConnectionNotFound)
		}
	}
}

// A gatedBackplane keeps subscriptions of groups waiting in front of a gate.
type gatedBackplane struct {
	*backplane.Redis
	waiting chan string   // channels that arrive at the gate
	gate    chan struct{} // closed: open
}

func (b gatedBackplane) Subscribe(ctx context.Context, deliver func(string, []byte), channels ...string) error {
	if strings.Contains(channels[0], ":group:") {
		b.waiting <- channels[0]
		<-b.gate
	}
	return b.Redis.Subscribe(ctx, deliver, channels...)
}

func TestAnEndDuringAJoinLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, n *node, c *client.Client) error
		want error // of the join
	}{
		{"the client goes", func(t *testing.T, _ *node, c *client.Client) error { return c.Stop(t.Context()) }, hub.ErrConnectionNotFound},
		{"the server removes it", func(t *testing.T, n *node, c *client.Client) error {
			return n.RemoveFromGroup(t.Context(), c.ConnectionID(), "g")
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bp := gatedBackplane{waiting: make(chan string, 1), gate: make(chan struct{})}
			joined := make(chan error, 1)
			rs := redistest.Start(t)
			n := startNode(t, nodeConfig{
				redis: rs.URL(),
				hub:   hub.Options{CloseTimeout: lateCloseTimeout},
				wrap:  func(r *backplane.Redis) hub.Backplane { bp.Redis = r; return bp },
				prepare: func(h *hub.Hub) {
					h.Handle("JoinSlowly", hub.Action0(func(_ context.Context, from *hub.Caller) error {
						joined <- from.AddToGroup(context.Background(), "g")
						return nil
					}))
				},
			})
			standing := rs.Channels()
			open := sync.OnceFunc(func() { close(bp.gate) })
			t.Cleanup(open)
			c := connect(t, client.Options{URL: n.url})
			if err := c.Send(t.Context(), "JoinSlowly"); err != nil {
				t.Fatal(err)
			}
			<-bp.waiting
			if err := tt.end(t, n, c); err != nil {
				t.Fatal(err)
			}
			eventually(t, 5*time.Second, func() string {
				if s := n.Stats(); s.Groups != 0 {
					return "the group is still there"
				}
				return ""
			})
			open()
			if err := <-joined; !errors.Is(err, tt.want) {
				t.Errorf("the join ended with %v, want %v", err, tt.want)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			expectChannels(t, rs, 3*time.Second, standing)
		})
	}
}

// The receiving instance is far from Redis, the sending one next to it: a
// message that is sent as soon as the join is confirmed has every chance to be
// there first.
func TestAMessageSentRightAfterAJoinArrives(t *testing.T) {
	const latency = 20 * time.Millisecond
	members, rounds := 50, size(6, 20)
	rs := redistest.Start(t)
	here := startNode(t, nodeConfig{redis: rs.URL()})
	there := startNode(t, nodeConfig{redis: startProxy(t, rs, latency).URL()})
	var all errgroup.Group
	for i := range members {
		all.Go(func() error {
			group, user := fmt.Sprint("g", i), fmt.Sprint("u", i)
			p, err := openPeer(there.url+"?user_id="+user, protocolOf(i))
			if err != nil {
				return err
			}
			defer p.drop()
			for n := range rounds {
				if err := p.call("Join", group); err != nil {
					return err
				}
				message := fmt.Sprint(i, " ", n)
				if err := here.Clients().Group(group).Send(t.Context(), "m", message); err != nil {
					return err
				}
				if err := p.expect(message); err != nil {
					return err
				}
				// The next join must not be undone by this leave.
				if err := p.call("Leave", group); err != nil {
					return err
				}
			}
			if err := here.Clients().Group(group).Send(t.Context(), "m", "too late"); err != nil {
				return err
			}
			if err := here.Clients().User(user).Send(t.Context(), "m", "end"); err != nil {
				return err
			}
			return p.expect("end")
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

func TestManyRemoteGroupChangesAtOnce(t *testing.T) {
	const atOnce, limit = 100, 5 * time.Second // a lost acknowledgement takes 30 s
	_, nodes := startNodes(t, 2, nodeConfig{})
	here, there := nodes[0], nodes[1]
	members := make([]*listener, 10)
	for i := range members {
		members[i] = listen(t, client.Options{URL: there.url, Protocol: protocolOf(i)})
		members[i].nothing(t) // its connect step is over: others know it
	}
	goroutines := runtime.NumGoroutine()
	timed := func(what string, want error, f func() error) {
		began := time.Now()
		if err := f(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if took := time.Since(began); took > limit {
			t.Errorf("%s took %v, want less than %v", what, took, limit)
		}
	}
	each := func(f func(i int, id, group string)) {
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() { f(i, members[i%len(members)].ConnectionID(), fmt.Sprint("g", i)) })
		}
		all.Wait()
	}
	each(func(_ int, id, group string) {
		timed("add", nil, func() error { return here.AddToGroup(t.Context(), id, group) })
		timed("send", nil, func() error { return here.Clients().Group(group).Send(t.Context(), "m", group) })
		timed("remove", nil, func() error { return here.RemoveFromGroup(t.Context(), id, group) })
		timed("send", nil, func() error { return here.Clients().Group(group).Send(t.Context(), "m", "too late") })
	})
	each(func(i int, _, group string) {
		unknown := fmt.Sprint("nobody", i)
		timed("add unknown", hub.ErrConnectionNotFound, func() error { return here.AddToGroup(t.Context(), unknown, group) })
		timed("remove unknown", hub.ErrConnectionNotFound, func() error { return here.RemoveFromGroup(t.Context(), unknown, group) })
	})
	for i, m := range members {
		var want []string
		for k := i; k < atOnce; k += len(members) {
			want = append(want, fmt.Sprint("g", k))
		}
		m.expectAll(t, want)
	}
	eventually(t, 5*time.Second, func() string {
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Sprintf("%d goroutines, want %d", n, goroutines)
		}
		return ""
	})
	if n := there.Stats().Groups; n != 0 {
		t.Errorf("%d groups are left", n)
	}
}

func TestARemoteGroupChangeOutlivesNoDeadOwner(t *testing.T) {
	const ackTimeout = 1500 * time.Millisecond
	const atOnce = 20
	rs := redistest.Start(t)
	here := startNode(t, nodeConfig{redis: rs.URL(), hub: hub.Options{AckTimeout: ackTimeout}})
	way := startProxy(t, rs, 0) // as long as nothing passes, its owner looks frozen; without it, dead
	owner := startNode(t, nodeConfig{redis: way.URL()})
	member := connect(t, client.Options{URL: owner.url})
	if err := member.Call(t.Context(), "Echo", "known to others from now on"); err != nil {
		t.Fatal(err)
	}

	// change asks for many changes at once, the owner dying meanwhile.
	change := func(die func(), least, most time.Duration, want error) {
		t.Helper()
		var all sync.WaitGroup
		began := time.Now()
		for i := range atOnce {
			all.Go(func() {
				err := here.AddToGroup(t.Context(), member.ConnectionID(), fmt.Sprint("g", i))
				if took := time.Since(began); !errors.Is(err, want) || took < least || took > most {
					t.Errorf("%v after %v, want %v between %v and %v", err, took, want, least, most)
				}
			})
		}
		die()
		all.Wait()
	}
	way.freeze()
	change(func() {}, ackTimeout, ackTimeout+time.Second, hub.ErrNoAnswer)
	// Whether anybody listens is looked at every second.
	change(way.close, 0, ackTimeout+time.Second, hub.ErrConnectionNotFound)
	change(func() {}, 0, ackTimeout, hub.ErrConnectionNotFound)
}
