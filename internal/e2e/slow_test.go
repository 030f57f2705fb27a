package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/hub"
)

// An ending is how a connection ended.
type ending struct {
	user  string
	cause error
}

// noteEndings reports the ends of connections.
func noteEndings(room int) (func(*hub.Hub), <-chan ending) {
	endings := make(chan ending, room)
	return func(h *hub.Hub) {
		h.OnDisconnected(func(_ context.Context, c *hub.Caller, cause error) {
			endings <- ending{c.UserID(), cause}
		})
	}, endings
}

// openMembers opens peers of both protocols that are in the group. last is the
// size of the last one's receive buffer.
func openMembers(t testing.TB, n *node, count int, group string, last int) []*peer {
	t.Helper()
	members := make([]*peer, count)
	var opening errgroup.Group
	opening.SetLimit(20)
	for i := range members {
		opening.Go(func() error {
			buffer := 0
			if i == count-1 {
				buffer = last
			}
			p, err := dialPeer(n.url+fmt.Sprint("?user_id=u", i), protocolOf(i), buffer)
			if err != nil {
				return err
			}
			members[i] = p
			return errors.Join(p.handshake(), p.call("Join", group))
		})
	}
	t.Cleanup(func() {
		for _, p := range members {
			if p != nil {
				p.drop()
			}
		}
	})
	if err := opening.Wait(); err != nil {
		t.Fatal(err)
	}
	return members
}

// streams are the bytes that members of each protocol receive.
func streams(t testing.TB, args []string) map[string][]byte {
	t.Helper()
	want := map[string][]byte{}
	for _, p := range protocols() {
		b, err := stream(p, args)
		if err != nil {
			t.Fatal(err)
		}
		want[p.Name()] = b
	}
	return want
}

// testStuckMember sends the messages to a group with a member that has stopped
// reading: the others get all of them in order and soon, no send waits, and the
// stuck one is cut with its reason. Whoever waited for the stuck one would wait
// for the write timeout.
func testStuckMember(t *testing.T, instances, members int, args []string, pace time.Duration) {
	writeTimeout := time.Duration(size(2, 10)) * time.Second
	prepare, endings := noteEndings(members)
	here, there := startEnds(t, instances, nodeConfig{
		hub:     hub.Options{WriteTimeout: writeTimeout, KeepAliveInterval: 10 * time.Minute, ClientTimeoutInterval: 20 * time.Minute},
		prepare: prepare,
	})
	peers := openMembers(t, there, members, "g", narrow)
	want := streams(t, args)
	var reading errgroup.Group
	for i, p := range peers[:members-1] {
		reading.Go(func() error {
			if err := p.expectStream(want[p.proto.Name()]); err != nil {
				return fmt.Errorf("member %d: %w", i, err)
			}
			return nil
		})
	}
	group := here.Clients().Group("g")
	var longest time.Duration
	for _, a := range args {
		began := time.Now()
		if err := group.Send(t.Context(), "m", a); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		if pace > 0 {
			pause(t, pace)
		}
	}
	sent := time.Now()
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("the longest send took %v, the others had everything %v after the last", longest, time.Since(sent))
	if longest > writeTimeout {
		t.Error("a send has waited for the stuck one")
	}
	if lag := time.Since(sent); pace > 0 && lag > writeTimeout {
		t.Error("the others have waited for the stuck one")
	}
	select {
	case e := <-endings:
		if e.user != fmt.Sprint("u", members-1) || !errors.Is(e.cause, hub.ErrSlowConsumer) {
			t.Errorf("%s ended with %v, want the stuck one with the slow consumer's reason", e.user, e.cause)
		}
	case <-time.After(writeTimeout + 5*time.Second):
		t.Error("the stuck member has not been cut")
	}
	eventually(t, 5*time.Second, func() string {
		s := there.Stats()
		if s.Disconnects[hub.ErrSlowConsumer.Reason()] != 1 || s.Connections != members-1 {
			return fmt.Sprintf("%d connections, ends %v, want %d and one slow consumer", s.Connections, s.Disconnects, members-1)
		}
		return ""
	})
}

// A client that reads steadily is no slow consumer, however much waits for it:
// the write timeout bounds one write, not the backlog.
func TestASteadyReaderOfALongBacklogIsNotCut(t *testing.T) {
	const messages, bytes = 30, 256 << 10
	const writeTimeout = 3 * time.Second
	const pace = 2 * writeTimeout / messages
	t.Parallel()
	n := startNode(t, nodeConfig{hub: hub.Options{WriteTimeout: writeTimeout, KeepAliveInterval: time.Minute}})
	members := openMembers(t, n, 1, "g", bytes/2)
	for i := range messages {
		if err := n.Clients().Group("g").Send(t.Context(), "m", fmt.Sprint(i, strings.Repeat("z", bytes))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages {
		pause(t, pace)
		if err := members[0].expect(fmt.Sprint(i, strings.Repeat("z", bytes))); err != nil {
			t.Fatalf("after %d of %d messages: %v", i, messages, err)
		}
	}
}

func TestOneStuckReaderOfLargeMessagesHoldsUpNobody(t *testing.T) {
	members, messages, bytes := size(8, 30), size(30, 30), size(192<<10, 1<<20)
	args := make([]string, messages)
	for i := range args {
		args[i] = fmt.Sprint(i, strings.Repeat("x", bytes))
	}
	onOneAndTwo(t, func(t *testing.T, instances int) {
		t.Parallel()
		testStuckMember(t, instances, members, args, time.Duration(size(25, 1000))*time.Millisecond)
	})
}

func TestOneStuckReaderOfABurstHoldsUpNobody(t *testing.T) {
	messages, members := size(8000, 20000), size(6, 50)
	args := make([]string, messages)
	for i := range args {
		args[i] = fmt.Sprint(i, strings.Repeat("y", 6_000_000/messages)) // more than the sockets hold
	}
	onOneAndTwo(t, func(t *testing.T, instances int) {
		t.Parallel()
		testStuckMember(t, instances, members, args, 0)
	})
}

func TestAllMembersSeeOneOrderOfTwoSendersOnOneInstance(t *testing.T) {
	const members = 6
	each := size(5000, 50000)
	n := startNode(t, nodeConfig{hub: hub.Options{KeepAliveInterval: time.Minute}})
	peers := openMembers(t, n, members, "g", 0)
	seen := make([][]string, members)
	var reading errgroup.Group
	for i, p := range peers {
		reading.Go(func() error {
			for range 2 * each {
				s, err := p.receive()
				if err != nil {
					return err
				}
				seen[i] = append(seen[i], s)
			}
			return nil
		})
	}
	var sending sync.WaitGroup
	for sender := range 2 {
		sending.Go(func() {
			for i := range each {
				if err := n.Clients().Group("g").Send(t.Context(), "m", fmt.Sprint(sender, ":", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	sending.Wait()
	if err := reading.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range seen {
		for k := range seen[0] {
			if seen[i][k] != seen[0][k] {
				t.Fatalf("message %d is %q for member %d and %q for member 0", k, seen[i][k], i, seen[0][k])
			}
		}
	}
	next := [2]int{}
	for _, s := range seen[0] {
		var sender, i int
		if _, err := fmt.Sscanf(s, "%d:%d", &sender, &i); err != nil || i != next[sender] {
			t.Fatalf("received %q, want number %d of that sender (%v)", s, next[sender], err)
		}
		next[sender]++
	}
}
