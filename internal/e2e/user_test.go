package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
)

// endedUsers tells when a connection of a user has ended.
type endedUsers struct {
	mu    sync.Mutex
	ended map[string]chan struct{}
}

func (e *endedUsers) of(user string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended[user] == nil {
		e.ended[user] = make(chan struct{})
	}
	return e.ended[user]
}

func (e *endedUsers) prepare(h *hub.Hub) {
	h.OnDisconnected(func(_ context.Context, c *hub.Caller, _ error) { close(e.of(c.UserID())) })
}

// A network blip: the user's next connection is there before the last one is
// known to be dead, on the other instance or on the same one.
func TestAUserStaysReachableWhileConnectionsOverlap(t *testing.T) {
	const timeout = time.Second
	users := size(20, 100)
	e := &endedUsers{ended: map[string]chan struct{}{}}
	_, nodes := startNodes(t, 2, nodeConfig{prepare: e.prepare, hub: hub.Options{
		ClientTimeoutInterval: timeout, KeepAliveInterval: timeout / 4, CloseTimeout: timeout / 4,
	}})
	var all sync.WaitGroup
	for i := range users {
		o := overlap{user: fmt.Sprint("u", i), asked: nodes[i/2%2], instances: 2}
		there := nodes[1]
		if i%4 == 0 {
			there, o.instances = nodes[0], 1
		}
		openOld(t, nodes[0], o.user, i)
		o.next = listen(t, client.Options{
			URL: there.url + "?user_id=" + o.user, Protocol: protocolOf(i + 1), KeepAliveInterval: timeout / 10,
		})
		o.next.nothing(t) // its connect step is over
		all.Go(func() { o.run(t, e.of(o.user)) })
	}
	all.Wait()
	same := (users + 3) / 4
	for i, want := range []int{same, users - same} {
		if s := nodes[i].Stats(); s.Users != want || s.Connections != want {
			t.Errorf("instance %d: %d users with %d connections, want %d with one each", i, s.Users, s.Connections, want)
		}
	}
}

// openOld opens the user's first connection, which answers nothing any more.
func openOld(t testing.TB, n *node, user string, i int) {
	t.Helper()
	old := mustOpen(t, n.url+"?user_id="+user, protocolOf(i))
	if err := old.call("Echo", "known to others from now on"); err != nil {
		t.Fatal(err)
	}
	if i%2 == 0 { // starts its clock; who has never pinged is asked below the hub
		if err := old.write(old.proto.AppendPing(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// An overlap is one user's change of connections.
type overlap struct {
	user      string
	next      *listener
	asked     *node // where messages to the user are sent
	instances int   // that have connections of the user at first
}

// run sends to the user until the old connection has ended and everybody knows.
func (o overlap) run(t *testing.T, ended <-chan struct{}) {
	var counts []int
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	late := time.After(20 * time.Second)
	for over, n := false, 0; !over || counts[n-1] != 1; n++ {
		heard, err := o.asked.Clients().User(o.user).SendConfirmed(t.Context(), "m", fmt.Sprint(n))
		if err != nil {
			t.Error(err)
			return
		}
		counts = append(counts, heard)
		select {
		case s := <-o.next.got:
			if s != fmt.Sprint(n) {
				t.Errorf("%s received %q, want %d", o.user, s, n)
			}
		case <-late:
			t.Errorf("%s: message %d does not come", o.user, n)
			return
		}
		select {
		case <-poll.C:
		case <-ended:
			over, ended = true, nil
		case <-late:
			t.Errorf("%s: the old connection does not end: %v", o.user, counts)
			return
		}
	}
	if counts[0] != o.instances {
		t.Errorf("%s was heard by %d instances at first, want %d", o.user, counts[0], o.instances)
	}
	for k, n := range counts {
		if n < 1 || k > 0 && n > counts[k-1] {
			t.Errorf("%s was heard by %v instances, want never more than before and never none", o.user, counts)
			return
		}
	}
}

// A client that never pings is asked below the hub whether it is there. One
// that is written to all the time has no quiet moment for the question, and
// answers nothing unless it is asked.
func TestABusyClientThatNeverPingsStays(t *testing.T) {
	const timeout = 500 * time.Millisecond
	const clients, window = 10, 20
	t.Parallel()
	n := startNode(t, nodeConfig{hub: hub.Options{ClientTimeoutInterval: timeout, KeepAliveInterval: timeout / 2}})
	var reading errgroup.Group
	read := make(chan struct{}, clients*window)
	for i := range clients {
		p := mustOpen(t, n.url, protocolOf(i))
		reading.Go(func() error {
			for {
				if _, err := p.receive(); err != nil {
					return err
				}
				read <- struct{}{}
			}
		})
	}
	// Something waits for everybody all the time, but not much.
	over := time.NewTimer(5 * timeout)
	defer over.Stop()
	for sent := 0; ; sent++ {
		if err := n.Clients().All().Send(t.Context(), "m", "busy"); err != nil {
			t.Fatal(err)
		}
		if sent >= window && !takeAll(read, clients, over.C) {
			break
		}
	}
	if s := n.Stats(); s.Connections != clients {
		t.Errorf("%d connections, ends %v, want %d", s.Connections, s.Disconnects, clients)
	}
	go func() {
		reading.Wait()
		close(read)
	}()
	n.stop()
	for range read { // until all readers have ended
	}
}

// takeAll takes so many elements, or returns false when the time is over.
func takeAll(from <-chan struct{}, count int, over <-chan time.Time) bool {
	for range count {
		select {
		case <-from:
		case <-over:
			return false
		}
	}
	return true
}
