package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestOnlyInstancesWithMembersGetAGroupsMessages(t *testing.T) {
	messages := size(2000, 20000)
	_, nodes := startNodes(t, 4, nodeConfig{hub: hub.Options{KeepAliveInterval: time.Minute}})
	here, there, others := nodes[0], nodes[1], nodes[2:]
	members := openMembers(t, there, 4, "g", 0)
	for _, n := range others { // they have connections and groups, but not this one
		openMembers(t, n, 2, "h", 0)
	}
	args := make([]string, messages)
	for i := range args {
		args[i] = fmt.Sprint(i)
	}
	want := streams(t, args)
	heard := func(n *node) uint64 {
		s := n.bp.Stats()
		return s.Received + s.Discarded
	}
	before := []uint64{heard(others[0]), heard(others[1])}
	for _, a := range args {
		if err := here.Clients().Group("g").Send(t.Context(), "m", a); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range members {
		if err := p.expectStream(want[p.proto.Name()]); err != nil {
			t.Errorf("member %d: %v", i, err)
		}
	}
	for i, n := range others {
		if got := heard(n) - before[i]; got != 0 {
			t.Errorf("instance %d without members received %d messages", i, got)
		}
	}
	if got := heard(here); got != 0 {
		t.Errorf("the sending instance, without members, received %d messages", got)
	}
}

// redisConnections counts the connections of nodes to their Redis.
func redisConnections(t testing.TB, rs *redistest.Server) int {
	t.Helper()
	list, ok := rs.Do("CLIENT", "LIST").(string)
	if !ok {
		t.Fatal("CLIENT LIST answered something else than text")
	}
	return strings.Count(list, " name="+nodeClientName+":")
}

// A crowd does many things at once that need Redis.
type crowd struct {
	node  *node
	ids   []string // connections
	calls atomic.Int64
	mu    sync.Mutex
	wrong map[string]int // errors nobody should see
}

// one does what the i-th of the crowd does, once.
func (c *crowd) one(ctx context.Context, i, n int) {
	var err error
	group := fmt.Sprint("group", i, "-", n)
	switch id := c.ids[i%len(c.ids)]; i % 4 {
	case 0:
		_, err = c.node.Clients().Group(group).SendConfirmed(ctx, "m", "x")
	case 1:
		if err = c.node.AddToGroup(ctx, id, group); err == nil {
			err = c.node.RemoveFromGroup(ctx, id, group)
		}
	case 2:
		if err = c.node.AddToGroup(ctx, "nobody", group); errors.Is(err, hub.ErrConnectionNotFound) {
			err = nil
		}
	case 3:
		if err = c.node.Clients().Group(group).Send(ctx, "m", "x"); err == nil {
			_, err = c.node.Clients().User("nobody").SendConfirmed(ctx, "m", "x")
		}
	}
	c.calls.Add(1)
	if err != nil && ctx.Err() == nil && !errors.Is(err, hub.ErrUnavailable) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wrong[err.Error()]++
	}
}

func TestTheConnectionsToRedisStayFewUnderLoad(t *testing.T) {
	const latency = 50 * time.Millisecond
	const budget = 6  // one to receive, one to publish, four for commands
	const closing = 4 // one per command connection that was given up because its command took too long
	groups, atOnce, lasting := size(1000, 20000), size(500, 2000), time.Duration(size(2, 30))*time.Second
	rs := redistest.Start(t)
	n := startNode(t, nodeConfig{redis: startProxy(t, rs, latency).URL(), hub: hub.Options{MaximumGroupsPerConnection: groups}})
	c := &crowd{node: n, wrong: map[string]int{}}
	for i := range 10 {
		member := connect(t, client.Options{URL: n.url, Protocol: protocolOf(i)})
		c.ids = append(c.ids, member.ConnectionID())
	}
	var joining errgroup.Group
	joining.SetLimit(200)
	for i := range groups {
		joining.Go(func() error { return n.AddToGroup(t.Context(), c.ids[i%len(c.ids)], fmt.Sprint("many", i)) })
	}
	if err := joining.Wait(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.one(ctx, i, n)
			}
		})
	}
	most := 0
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		most = max(most, redisConnections(t, rs))
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	all.Wait()
	t.Logf("%d calls; at most %d connections", c.calls.Load(), most)
	if most > budget+closing || most == 0 {
		t.Errorf("up to %d connections to Redis, want at most %d", most, budget+closing)
	}
	for text, count := range c.wrong {
		t.Errorf("%d calls ended with %s", count, text)
	}
	if links := n.bp.Stats().Links; links != 1 {
		t.Errorf("%d links, want one all the time", links)
	}
}
