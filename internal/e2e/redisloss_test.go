package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// A crowdMember reads all the time and notes whether it hears anything.
type crowdMember struct {
	*peer
	id           string
	groups       []string
	heard, ended atomic.Bool
}

// read notes what arrives until the connection ends.
func (m *crowdMember) read() {
	defer m.ended.Store(true)
	for {
		if _, err := m.receive(); err != nil {
			return
		}
		m.heard.Store(true)
	}
}

// Redis is killed under connected clients, stays away for a while in which some
// join and some leave, and comes back empty.
func TestEverybodyIsBackSoonAfterRedisIs(t *testing.T) {
	const limit = 3 * time.Second // from the moment Redis accepts connections
	const away = 2 * time.Second
	const clients, groups = 500, 100
	t.Parallel()
	rs, nodes := startNodes(t, 2, nodeConfig{})
	expected := rs.Channels()
	members := openCrowd(t, nodes, clients, groups)
	var reading errgroup.Group
	t.Cleanup(func() {
		for _, m := range members {
			m.drop()
		}
		reading.Wait()
	})
	for _, m := range members {
		reading.Go(func() error { m.read(); return nil })
	}
	everybody := func() string { return sendRound(t, nodes, members, groups) }
	eventually(t, 10*time.Second, everybody)

	rs.Stop()
	gone := time.Now()
	eventually(t, 5*time.Second, func() string {
		for _, n := range nodes {
			if n.bp.Linked() {
				return "an instance has not noticed"
			}
		}
		return ""
	})
	changeMembership(t, nodes, members)
	pause(t, away-time.Since(gone))
	for _, m := range members {
		m.heard.Store(false)
	}

	rs.Restart()
	began := time.Now()
	eventually(t, limit, everybody)
	t.Logf("every member of every group had a message %v after Redis was back", time.Since(began).Round(time.Millisecond))
	for i, m := range members {
		expected = append(expected, hubKey+":connection:"+m.id, fmt.Sprint(hubKey, ":user:u", i))
		for _, g := range m.groups {
			expected = append(expected, hubKey+":group:"+g)
		}
	}
	slices.Sort(expected)
	expectChannels(t, rs, limit-time.Since(began), slices.Compact(expected))
	expectNobodyLost(t, nodes, members)
}

// sendRound sends to all groups, from both instances, and says who has heard
// nothing of it or of an earlier round yet.
func sendRound(t testing.TB, nodes []*node, members []*crowdMember, groups int) string {
	for i := range groups {
		// An error means that Redis is not back yet.
		if err := nodes[i%2].Clients().Group(fmt.Sprint("g", i)).Send(t.Context(), "m", "round"); err != nil {
			return err.Error()
		}
	}
	missing := 0
	for _, m := range members {
		if !m.heard.Load() {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Sprintf("%d members have heard nothing", missing)
	}
	return ""
}

// expectNobodyLost fails the test if a connection has ended.
func expectNobodyLost(t testing.TB, nodes []*node, members []*crowdMember) {
	t.Helper()
	connections := 0
	for _, n := range nodes {
		s := n.Stats()
		connections += s.Connections
		for reason, count := range s.Disconnects {
			if count > 0 {
				t.Errorf("%d connections have ended: %s", count, reason)
			}
		}
	}
	for i, m := range members {
		if m.ended.Load() {
			t.Errorf("client %d was disconnected", i)
		}
	}
	if connections != len(members) {
		t.Errorf("%d connections, want %d", connections, len(members))
	}
}

// openCrowd opens clients of both protocols on both nodes, each of them in a
// group with others and in one of its own.
func openCrowd(t testing.TB, nodes []*node, clients, groups int) []*crowdMember {
	t.Helper()
	members := make([]*crowdMember, clients)
	var opening errgroup.Group
	opening.SetLimit(20)
	for i := range members {
		m := &crowdMember{groups: []string{fmt.Sprint("g", i%groups), fmt.Sprint("own", i)}}
		members[i] = m
		opening.Go(func() (err error) {
			if m.peer, err = openPeer(nodes[i%2].url+fmt.Sprint("?user_id=u", i), protocolOf(i/2)); err != nil {
				return err
			}
			for _, g := range m.groups {
				if err := m.call("Join", g); err != nil {
					return err
				}
			}
			m.id, err = m.peer.id()
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		t.Fatal(err)
	}
	return members
}

// changeMembership has five members join new groups and five leave old ones
// while Redis is away.
func changeMembership(t testing.TB, nodes []*node, members []*crowdMember) {
	t.Helper()
	const changes = 5
	for i := range 2 * changes {
		m, n := members[i], nodes[i%2]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var err error
		if i < changes {
			err = n.AddToGroup(ctx, m.id, fmt.Sprint("new", i))
			m.groups = append(m.groups, fmt.Sprint("new", i))
		} else {
			err = n.RemoveFromGroup(ctx, m.id, m.groups[1])
			m.groups = m.groups[:1]
		}
		cancel()
		if err != nil {
			t.Errorf("change %d while Redis is away: %v", i, err)
		}
	}
}
