package hub

import (
	"slices"
	"sync"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// maxProtocols bounds the hub protocols of one hub.
const maxProtocols = 4

// prepared is one message, encoded once in each protocol that has receivers
// here; nil where a protocol has none.
type prepared [maxProtocols]*transport.Message

// release gives back the reference that prepared holds of each message.
func (p *prepared) release() {
	for _, m := range p {
		if m != nil {
			m.Release(1)
		}
	}
}

// indexAbove is the size from which a set keeps an index for removals.
const indexAbove = 32

// A set is a changing set of connections with one order of messages: all of
// the hub, a group, or a user. Its lock is held while a message is put on the
// queue of every member, so all members see all messages in one order and
// nothing reaches a connection after remove has returned.
//
// Lock order: conn.groupMu, then set.mu, then outbound.mu. Nothing under
// set.mu waits.
type set struct {
	// refs counts members and those about to become one; guarded by registry.mu.
	refs int

	mu      sync.Mutex
	members []*conn
	index   map[*conn]int // nil while the set is small
}

// add makes c a member; a second time changes nothing.
func (s *set) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(c) >= 0 {
		return
	}
	s.members = append(s.members, c)
	switch {
	case s.index != nil:
		s.index[c] = len(s.members) - 1
	case len(s.members) > indexAbove:
		s.index = make(map[*conn]int, 2*len(s.members))
		for i, m := range s.members {
			s.index[m] = i
		}
	}
}

// remove takes c out; when it returns, no message of the set is on its way to
// c's queue any more.
func (s *set) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(c)
	if i < 0 {
		return
	}
	last := len(s.members) - 1
	s.members[i] = s.members[last]
	s.members[last] = nil
	s.members = s.members[:last]
	if s.index != nil {
		delete(s.index, c)
		if i < last {
			s.index[s.members[i]] = i
		}
	}
	if cap(s.members) > 2*indexAbove && len(s.members) < cap(s.members)/4 {
		s.members = append(make([]*conn, 0, cap(s.members)/2), s.members...)
	}
	if s.index != nil && len(s.members) < indexAbove/2 {
		s.index = nil
	}
}

func (s *set) find(c *conn) int {
	if s.index == nil {
		return slices.Index(s.members, c)
	}
	if i, ok := s.index[c]; ok {
		return i
	}
	return -1
}

// size returns the number of members.
func (s *set) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// snapshot appends the members to dst.
func (s *set) snapshot(dst []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(dst, s.members...)
}

// deliver queues the message for every member but the excluded ones. It
// returns the longest queue it met, as a hint to give the writers a turn.
func (s *set) deliver(p *prepared, excluded []string) (longest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.members)
	if n == 0 {
		return 0
	}
	// One count for all: what the members do not take is given back below.
	for _, m := range p {
		if m != nil {
			m.Retain(n)
		}
	}
	var unused [maxProtocols]int
	for i := range unused {
		unused[i] = n
	}
	for _, c := range s.members {
		m := p[c.protocolIndex]
		if m == nil || len(excluded) > 0 && slices.Contains(excluded, c.id) {
			continue
		}
		if queued, took := c.enqueue(m); took {
			unused[c.protocolIndex]--
			longest = max(longest, queued)
		}
	}
	for i, m := range p {
		if m != nil && unused[i] > 0 {
			m.Release(unused[i])
		}
	}
	return longest
}
