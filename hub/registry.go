package hub

import "sync"

// A registry knows the connections of this instance and the sets they are in.
// Its lock covers the maps and the sets' refs, never a delivery.
type registry struct {
	all set

	mu     sync.RWMutex
	closed bool
	conns  map[string]*conn
	groups map[string]*set
	users  map[string]*set
}

func newRegistry() *registry {
	return &registry{conns: map[string]*conn{}, groups: map[string]*set{}, users: map[string]*set{}}
}

// add registers a connection, and its user, unless the registry is closed or
// the id is taken.
func (r *registry) add(c *conn) bool {
	r.mu.Lock()
	if _, taken := r.conns[c.id]; r.closed || taken {
		r.mu.Unlock()
		return false
	}
	r.conns[c.id] = c
	var user *set
	if id := c.userID(); id != "" {
		user = hold(r.users, id)
	}
	r.mu.Unlock()
	r.all.add(c)
	if user != nil {
		user.add(c)
	}
	return true
}

// remove makes the connection unreachable by its id and user. It stays in all,
// whose clock watches over its close, until forget.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	delete(r.conns, c.id)
	user := r.users[c.userID()]
	r.mu.Unlock()
	if user != nil {
		user.remove(c)
		r.drop(r.users, c.userID(), user)
	}
}

// forget takes the connection, which is over, out of all.
func (r *registry) forget(c *conn) { r.all.remove(c) }

// close refuses further connections and returns those there are.
func (r *registry) close() []*conn {
	r.mu.Lock()
	r.closed = true
	conns := make([]*conn, 0, len(r.conns))
	for _, c := range r.conns {
		conns = append(conns, c)
	}
	r.mu.Unlock()
	return conns
}

// hold finds or makes a set and counts the caller in; r.mu is held.
func hold(sets map[string]*set, name string) *set {
	s := sets[name]
	if s == nil {
		s = &set{}
		sets[name] = s
	}
	s.refs++
	return s
}

// holdGroup finds or makes a group and counts the caller in.
func (r *registry) holdGroup(name string) *set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return hold(r.groups, name)
}

// drop counts the caller out and forgets a set that nobody is in.
func (r *registry) drop(sets map[string]*set, name string, s *set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.refs--; s.refs == 0 {
		delete(sets, name)
	}
}

func (r *registry) dropGroup(name string, s *set) { r.drop(r.groups, name, s) }

func (r *registry) conn(id string) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.conns[id]
}

func (r *registry) group(name string) *set {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.groups[name]
}

func (r *registry) user(id string) *set {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.users[id]
}

// counts returns the numbers of connections, groups and users here.
func (r *registry) counts() (conns, groups, users int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.conns), len(r.groups), len(r.users)
}
