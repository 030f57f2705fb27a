package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/hub"
)

// expectNobody waits until the nodes have no connections, groups or users.
func expectNobody(t testing.TB, nodes []*node) {
	t.Helper()
	eventually(t, 30*time.Second, func() string {
		for i, n := range nodes {
			s := n.Stats()
			if s.Connections != 0 || s.Groups != 0 || s.Users != 0 || s.QueuedBytes != 0 || n.HTTPStats().Open != 0 {
				return fmt.Sprintf("instance %d has %d connections (%d open), %d groups, %d users and %d bytes queued",
					i, s.Connections, n.HTTPStats().Open, s.Groups, s.Users, s.QueuedBytes)
			}
		}
		return ""
	})
}

// useGroupsOnce joins groups of new names, has a message sent to each from the
// other instance, and leaves half of them; the others end with the connection.
func useGroupsOnce(nodes []*node, worker, wave, groups int) error {
	p, err := openPeer(nodes[worker%2].url, protocolOf(worker/2))
	if err != nil {
		return err
	}
	defer p.drop()
	names, answers := make([]string, groups), make([]string, groups)
	for i := range names {
		names[i] = fmt.Sprint("once-", worker, "-", wave, "-", i)
		if answers[i], err = p.begin("Join", names[i]); err != nil {
			return err
		}
	}
	for _, id := range answers {
		if _, err := p.answer(id); err != nil {
			return err
		}
	}
	for i, name := range names {
		from := nodes[(worker+i)%2]
		if _, err := from.Clients().Group(name).SendConfirmed(context.Background(), "m", name); err != nil {
			return err
		}
	}
	if err := p.expect(names...); err != nil {
		return err
	}
	for _, name := range names[:groups/2] {
		if err := p.call("Leave", name); err != nil {
			return err
		}
	}
	return p.leave()
}

func TestGroupsThatWereUsedOnceLeaveNothing(t *testing.T) {
	const workers, perWave = 8, 100
	waves := size(4000, 100000) / workers / perWave
	rs, nodes := startNodes(t, 2, nodeConfig{})
	standing := rs.Channels()
	run := func(from, to int) {
		t.Helper()
		var all errgroup.Group
		for worker := range workers {
			all.Go(func() error {
				for wave := from; wave < to; wave++ {
					if err := useGroupsOnce(nodes, worker, wave, perWave); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		expectNobody(t, nodes)
		expectChannels(t, rs, 10*time.Second, standing)
	}
	run(0, 1) // pools and maps get their size
	before := measure()
	run(1, 1+waves)
	after := before.expectSame(t)
	t.Logf("%d groups: %d goroutines and %d KiB before, %d KiB after", waves*workers*perWave, before.goroutines, before.heap>>10, after.heap>>10)
}

// stormTimeout is that of the storm's clients and handshakes: short enough to see
// the silent ones end, long enough for the others on a busy machine.
const stormTimeout = 4 * time.Second

// stormWays are the ways in which connections of the storm end.
func stormWays() []string {
	return []string{"clean close", "reset", "black hole", "failed handshake"}
}

// A storm is many connections on two nodes.
type storm struct {
	nodes []*node
	ways  []string // in which the connections end, one after another
	hold  func()   // what connections that end by themselves wait for
}

// connection is the whole life of one. It joins a group with others and one of
// its own.
func (s storm) connection(i int) error {
	way := s.ways[i/2%len(s.ways)]
	nth := i / 2 / len(s.ways) // of its way and node
	p, err := dialPeer(s.nodes[i%2].url+fmt.Sprint("?user_id=u", i%50), protocolOf(nth), 0)
	if err != nil {
		return err
	}
	defer p.drop()
	if way == "failed handshake" {
		if nth%4 < 2 { // the others say nothing
			if err := p.write([]byte("{}\x1e")); err != nil { // names no protocol
				return err
			}
		}
		return p.swallow()
	}
	if err := p.handshake(); err != nil {
		return err
	}
	for _, group := range []string{fmt.Sprint("storm", i%20), fmt.Sprint("own", i)} {
		if err := p.call("Join", group); err != nil {
			return err
		}
	}
	s.hold()
	switch way {
	case "clean close":
		return p.leave()
	case "reset":
		return p.reset()
	}
	if nth%4 < 2 { // starts its clock; who has never pinged is asked below the hub
		if err := p.write(p.proto.AppendPing(nil)); err != nil {
			return err
		}
	}
	return p.swallow()
}

// run runs connections with the numbers from from to to, some at once, until
// nobody is left.
func (s storm) run(t testing.TB, from, to, atOnce int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i := from; i < to; i++ {
		all.Go(func() error {
			if err := s.connection(i); err != nil {
				return fmt.Errorf("%s: %w", s.ways[i/2%len(s.ways)], err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	expectNobody(t, s.nodes)
}

// together returns what makes so many goroutines wait for each other.
func together(t testing.TB, count int) func() {
	var missing sync.WaitGroup
	missing.Add(count)
	all := make(chan struct{})
	go func() {
		missing.Wait()
		close(all)
	}()
	return func() {
		missing.Done()
		select {
		case <-all:
		case <-time.After(stormTimeout / 2):
			t.Log("not all connections of the first wave were open at once")
		}
	}
}

func TestAStormOfConnectionsLeavesNothing(t *testing.T) {
	connections, atOnce := size(1200, 20000), size(600, 1000)
	rs, nodes := startNodes(t, 2, nodeConfig{hub: hub.Options{
		ClientTimeoutInterval: stormTimeout, HandshakeTimeout: stormTimeout, KeepAliveInterval: stormTimeout / 2,
		CloseTimeout: stormTimeout / 4,
	}})
	standing := rs.Channels()
	// Pools and maps get their size.
	storm{nodes, []string{"clean close"}, together(t, atOnce)}.run(t, 0, atOnce, atOnce)
	before := measure()
	began := time.Now()
	storm{nodes, stormWays(), func() {}}.run(t, atOnce, atOnce+connections, atOnce)
	took := time.Since(began)
	expectChannels(t, rs, 10*time.Second, standing)
	after := before.expectSame(t)
	t.Logf("%d connections in %v: %d goroutines and %d KiB before, %d and %d KiB after", connections, took.Round(time.Millisecond),
		before.goroutines, before.heap>>10, after.goroutines, after.heap>>10)
	ends := map[string]uint64{}
	for _, n := range nodes {
		for reason, count := range n.Stats().Disconnects {
			ends[reason] += count
		}
	}
	t.Logf("ends: %v", ends)
	quarter := uint64(connections / len(stormWays()))
	closed, failed := ends[hub.ErrClosedByClient.Reason()], ends[hub.ErrHandshake.Reason()]
	gone, silent := ends[hub.ErrPeerGone.Reason()], ends[hub.ErrClientTimeout.Reason()]
	if closed != uint64(atOnce)+quarter || failed != quarter || gone+silent != 2*quarter || silent < quarter/4 {
		t.Errorf("want %d of each kind, and %d clean ones before", quarter, atOnce)
	}
}
