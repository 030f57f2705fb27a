package backplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model plays Redis and the writer of a link against a registry, step by step.
type model struct {
	t        *testing.T
	registry *registry
	link     *link
	unread   []command       // written, not yet read by Redis
	replies  [][2]string     // kind and channel, on their way back
	server   map[string]bool // what Redis has, by name with prefix
	counts   map[string]int  // subscriptions, whether confirmed or not
	owed     map[string]int  // of these, those whose call has returned
	waiting  map[*waiter][]string
}

const modelPrefix = "p:"

func newModel(t *testing.T) *model {
	return &model{t: t, registry: newRegistry(modelPrefix), counts: map[string]int{},
		owed: map[string]int{}, waiting: map[*waiter][]string{}}
}

// step does what the byte says.
func (m *model) step(op byte) {
	names := []string{fmt.Sprint(op >> 4)}
	if op&8 != 0 {
		names = append(names, fmt.Sprint(op>>4+1), fmt.Sprint(op>>4+2))
	}
	switch op & 7 {
	case 0, 1:
		m.subscribe(names)
	case 2, 3:
		m.unsubscribe(names)
	case 4:
		m.write()
	case 5:
		m.read()
	case 6:
		m.reply()
	case 7:
		switch op >> 4 {
		case 0:
			m.relink()
		case 1:
			m.abandon()
		default:
			m.reply()
		}
	}
	m.check()
}

func (m *model) subscribe(names []string) {
	w, err := m.registry.subscribe(func(string, []byte) {}, names)
	if err != nil {
		m.t.Fatalf("subscribe: %v", err)
	}
	for _, name := range names {
		m.counts[name]++
	}
	if w != nil {
		m.waiting[w] = names
		return
	}
	for _, name := range names {
		m.owed[name]++
		if !m.server[modelPrefix+name] {
			m.t.Fatalf("subscribe of %q did not wait, yet Redis does not have it", name)
		}
	}
}

func (m *model) unsubscribe(names []string) {
	var wantErr bool
	for _, name := range names {
		if m.counts[name] > 0 && m.owed[name] == 0 {
			return // nobody would: the call that subscribed has not returned
		}
	}
	for _, name := range names {
		if m.counts[name] == 0 {
			wantErr = true
		} else {
			m.counts[name]--
			m.owed[name]--
		}
	}
	if err := m.registry.unsubscribe(names); errors.Is(err, ErrNotSubscribed) != wantErr {
		m.t.Fatalf("unsubscribe %q: %v, want an error: %v", names, err, wantErr)
	}
}

// abandon ends the wait of a call, as its context would.
func (m *model) abandon() {
	for w, names := range m.waiting {
		if settled, err := m.registry.abandon(w, names); settled || err != nil {
			m.t.Fatalf("abandon: settled %v, %v", settled, err)
		}
		delete(m.waiting, w)
		for _, name := range names {
			m.owed[name]++
		}
		return
	}
}

// write takes the commands a link would write now.
func (m *model) write() {
	if m.link == nil {
		return
	}
	m.unread = append(m.unread, m.registry.next(2)...)
	if len(m.registry.inflight) > maxInflight+1 {
		m.t.Fatalf("%d commands under way", len(m.registry.inflight))
	}
}

// read lets Redis execute the next command.
func (m *model) read() {
	if len(m.unread) == 0 {
		return
	}
	c := m.unread[0]
	m.unread = m.unread[1:]
	if len(c.names()) == 0 {
		m.t.Fatal("a command without channels means all of them")
	}
	for _, name := range c.names() {
		if (c.kind == "subscribe") == m.server[name] {
			m.t.Fatalf("%s of %q is of no use", c.kind, name)
		}
		m.server[name] = c.kind == "subscribe"
		m.replies = append(m.replies, [2]string{c.kind, name})
	}
}

// reply lets one confirmation arrive.
func (m *model) reply() {
	if len(m.replies) == 0 {
		return
	}
	r := m.replies[0]
	m.replies = m.replies[1:]
	if !m.registry.confirm(r[0], r[1]) {
		m.t.Fatalf("confirmation of %s %q was not expected", r[0], r[1])
	}
}

// relink loses the link, or gets a new one.
func (m *model) relink() {
	m.unread, m.replies, m.server = nil, nil, map[string]bool{}
	if m.link != nil {
		m.link = nil
		m.registry.detach()
		return
	}
	m.link = &link{established: make(chan struct{})}
	m.registry.attach(m.link)
}

// check looks whether those whose wait has ended have what they waited for.
func (m *model) check() {
	for w, names := range m.waiting {
		select {
		case <-w.done:
		default:
			continue
		}
		delete(m.waiting, w)
		for _, name := range names {
			m.owed[name]++
			if w.err != nil || !m.server[modelPrefix+name] {
				m.t.Fatalf("subscribe of %q returned %v, Redis has it: %v", name, w.err, m.server[modelPrefix+name])
			}
		}
	}
}

// settle lets everything come to rest and compares.
func (m *model) settle() {
	if m.link == nil {
		m.relink()
	}
	for range 1000 {
		m.write()
		m.read()
		m.reply()
		m.check()
	}
	select {
	case <-m.link.established:
	default:
		m.t.Error("the link is not established")
	}
	var got, want []string
	for name, on := range m.server {
		if on {
			got = append(got, name)
		}
	}
	for name, count := range m.counts {
		if count > 0 {
			want = append(want, modelPrefix+name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		m.t.Errorf("Redis has %q, want %q", got, want)
	}
	if channels, lives := m.registry.size(); channels != len(want) || lives != len(want) {
		m.t.Errorf("%d channels, %d live, want %d", channels, lives, len(want))
	}
	if len(m.waiting) > 0 {
		m.t.Errorf("%d calls still wait", len(m.waiting))
	}
}

// FuzzRegistry: whatever is asked for in whatever order, and whenever the link
// is lost, Redis ends up with exactly the channels wanted, no command is
// useless, and nobody is told so before it is true.
func FuzzRegistry(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		program := make([]byte, 20+n)
		for i := range program {
			program[i] = byte(random.UintN(256))
		}
		f.Add(append([]byte{7}, program...))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		m := newModel(t)
		for _, op := range program[:min(len(program), 2000)] {
			m.step(op)
		}
		m.settle()
	})
}

func TestRegistryRefusal(t *testing.T) {
	s := newRegistry("p:")
	l := &link{established: make(chan struct{})}
	s.attach(l)
	deliver := func(string, []byte) {}
	good, err1 := s.subscribe(deliver, []string{"good"})
	bad, err2 := s.subscribe(deliver, []string{"bad"})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if got := s.next(10); len(got) != 1 || !slices.Equal(got[0].names(), []string{"p:good", "p:bad"}) {
		t.Fatalf("commands %v, want one for both", got)
	}
	if channel, ok := s.refuse(ErrAuth); channel != "" || !ok {
		t.Errorf("refusal of two: %q, %v, want no name", channel, ok)
	}
	if got := s.next(10); len(got) != 2 {
		t.Fatalf("commands %v, want one for each", got)
	}
	if !s.confirm("subscribe", "p:good") {
		t.Error("confirmation was not expected")
	}
	if channel, ok := s.refuse(ErrAuth); channel != "bad" || !ok {
		t.Errorf("refusal of one: %q, %v, want its name", channel, ok)
	}
	<-good.done
	<-bad.done
	if good.err != nil || bad.err != ErrAuth {
		t.Errorf("errors %v and %v, want nil and ErrAuth", good.err, bad.err)
	}
	if _, ok := s.refuse(ErrAuth); ok {
		t.Error("a refusal of nothing was accepted")
	}
	if s.confirm("subscribe", "p:good") {
		t.Error("a confirmation of nothing was accepted")
	}
}

func TestReceiverDoesNotAllocate(t *testing.T) {
	s := newRegistry("prefix:")
	s.attach(&link{established: make(chan struct{})})
	if _, err := s.subscribe(func(string, []byte) {}, []string{"room"}); err != nil {
		t.Fatal(err)
	}
	payload := "payload"
	if n := testing.AllocsPerRun(100, func() {
		deliver, channel := s.receiver("prefix:room")
		if channel != "room" {
			t.Errorf("channel %q", channel)
		}
		deliver(channel, bytesOf(payload))
	}); n != 0 {
		t.Errorf("%v allocations per message, want 0", n)
	}
}
