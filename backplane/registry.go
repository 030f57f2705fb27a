package backplane

import (
	"fmt"
	"strings"
	"sync"
)

// wireState is what Redis was asked and has confirmed about one channel on the
// present link.
type wireState uint8

const (
	absent      wireState = iota // not subscribed
	subscribing                  // SUBSCRIBE under way
	live                         // subscribed, confirmed
	leaving                      // UNSUBSCRIBE under way
	refused                      // Redis answered SUBSCRIBE with an error
)

// subscription is one channel somebody wants, or that has yet to be left.
type subscription struct {
	name    string // with the prefix
	count   int    // calls of Subscribe without their Unsubscribe
	deliver func(channel string, payload []byte)
	state   wireState
	pending bool // in registry.pending
	alone   bool // goes into a SUBSCRIBE of its own, to find the refused one
	initial bool // counts in registry.initial
	waiters []*waiter
}

// waiter is a call of Subscribe that waits for confirmations.
type waiter struct {
	done      chan struct{} // closed when nothing remains or err is set
	remaining int
	err       error
}

// registry knows the channels of this process and what the link has to do to
// match them. Its methods never wait.
type registry struct {
	prefix string
	ready  chan struct{} // capacity 1: there is something to write

	mu       sync.Mutex
	gate     gate
	channels map[string]*subscription // by name with prefix
	link     *link                    // nil between links
	pending  []*subscription          // what the link may have to write
	inflight []command                // written and not yet fully answered
	initial  int                      // channels of before the link, not yet settled on it
	lives    int                      // channels in state live
}

// command is one SUBSCRIBE or UNSUBSCRIBE on its way. Redis confirms its
// channels one by one in the order given, or answers once with an error.
type command struct {
	kind      string // "subscribe" or "unsubscribe"
	channels  []*subscription
	confirmed int
}

// maxInflight bounds the commands under way, so that the confirmations cannot
// overflow Redis's output buffer.
const maxInflight = 4

func newRegistry(prefix string) *registry {
	return &registry{prefix: prefix, ready: make(chan struct{}, 1), channels: make(map[string]*subscription)}
}

// subscribe counts the channels and returns who waits for them; nil means that
// all of them are live already. While Redis is declared away the count is kept
// and the error is ErrUnavailable.
func (s *registry) subscribe(deliver func(string, []byte), names []string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate == gateClosed {
		return nil, ErrClosed
	}
	var w *waiter
	for _, name := range names {
		sub := s.find(name)
		if sub == nil {
			sub = &subscription{name: s.prefix + name}
			s.channels[sub.name] = sub
		}
		if sub.count == 0 {
			sub.deliver = deliver
		}
		sub.count++
		if sub.state == live {
			continue
		}
		if sub.state == refused {
			sub.state = absent
		}
		s.push(sub)
		if s.gate == gateShut {
			continue
		}
		if w == nil {
			w = &waiter{done: make(chan struct{})}
		}
		w.remaining++
		sub.waiters = append(sub.waiters, w)
	}
	if s.gate == gateShut {
		return nil, ErrUnavailable
	}
	return w, nil
}

// find looks a channel up by its name without the prefix.
func (s *registry) find(name string) *subscription {
	if s.prefix == "" {
		return s.channels[name]
	}
	return s.channels[s.prefix+name]
}

// abandon takes back the waiter, not the count, and returns its outcome if it
// was settled meanwhile.
func (s *registry) abandon(w *waiter, names []string) (settled bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		return true, w.err
	default:
	}
	for _, name := range names {
		if sub := s.find(name); sub != nil {
			sub.removeWaiter(w)
		}
	}
	return false, nil
}

func (sub *subscription) removeWaiter(w *waiter) {
	kept := sub.waiters[:0]
	for _, other := range sub.waiters {
		if other != w {
			kept = append(kept, other)
		}
	}
	clear(sub.waiters[len(kept):])
	sub.waiters = kept
}

// unsubscribe takes back one count of each channel.
func (s *registry) unsubscribe(names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, name := range names {
		sub := s.find(name)
		if sub == nil || sub.count == 0 {
			err = fmt.Errorf("backplane: unsubscribe %q: %w", name, ErrNotSubscribed)
			continue
		}
		sub.count--
		if sub.count == 0 {
			s.push(sub)
		}
	}
	return err
}

// push notes that the channel may need a command. Without a link there is
// nobody to write it, and what nobody wants is forgotten at once.
func (s *registry) push(sub *subscription) {
	if s.link == nil {
		if sub.count == 0 {
			s.remove(sub)
		}
		return
	}
	if sub.pending || sub.state == subscribing || sub.state == leaving {
		return // its turn, or its confirmation, is still to come
	}
	sub.pending = true
	s.pending = append(s.pending, sub)
	s.wake()
}

func (s *registry) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// remove forgets a channel that is neither wanted nor subscribed.
func (s *registry) remove(sub *subscription) {
	delete(s.channels, sub.name)
	sub.finish(ErrNotSubscribed)
	s.settle(sub)
}

// finish tells everybody who waits for the channel.
func (sub *subscription) finish(err error) {
	for _, w := range sub.waiters {
		w.remaining--
		if w.err != nil {
			continue // done already
		}
		if w.err = err; err != nil || w.remaining == 0 {
			close(w.done)
		}
	}
	sub.waiters = nil
}

// settle counts the channels a new link had to establish first. With the last
// of them the link is established, and so is everything live on it.
func (s *registry) settle(sub *subscription) {
	if !sub.initial {
		return
	}
	sub.initial = false
	if s.initial--; s.initial > 0 || s.link == nil {
		return
	}
	close(s.link.established)
	for _, sub := range s.channels {
		if sub.state == live {
			sub.finish(nil)
		}
	}
}

// attach makes l the link: everything wanted is to be subscribed on it.
func (s *registry) attach(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	s.initial = len(s.channels)
	for _, sub := range s.channels {
		sub.initial = true
		s.push(sub)
	}
	if s.initial == 0 {
		close(l.established)
	}
}

// detach ends the link: nothing is subscribed any more.
func (s *registry) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.pending, s.inflight, s.initial, s.lives = nil, nil, nil, 0, 0
	for _, sub := range s.channels {
		sub.state, sub.pending, sub.alone, sub.initial = absent, false, false, false
		if sub.count == 0 {
			s.remove(sub)
		}
	}
}

// set changes the gate; shut or closed, everybody who waits is told why.
func (s *registry) set(to gate, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = to
	if to == gateOpen {
		return
	}
	for _, sub := range s.channels {
		sub.finish(reason)
	}
}

// next takes up to limit pending channels and returns the commands they need,
// already noted as under way.
func (s *registry) next(limit int) []command {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) >= maxInflight {
		return nil
	}
	join := command{kind: "subscribe"}
	leave := command{kind: "unsubscribe"}
	var commands []command
	taken := 0
	for _, sub := range s.pending[:min(limit, len(s.pending))] {
		taken++
		sub.pending = false
		switch {
		case sub.count > 0 && sub.state == absent && sub.alone:
			sub.state = subscribing
			commands = append(commands, command{kind: join.kind, channels: []*subscription{sub}})
		case sub.count > 0 && sub.state == absent:
			sub.state = subscribing
			join.channels = append(join.channels, sub)
		case sub.count == 0 && sub.state == live:
			sub.state = leaving
			s.lives--
			leave.channels = append(leave.channels, sub)
		case sub.count == 0 && (sub.state == absent || sub.state == refused):
			s.remove(sub)
		}
		if len(s.inflight)+len(commands) >= maxInflight {
			break
		}
	}
	clear(s.pending[:taken])
	s.pending = s.pending[taken:]
	for _, c := range []command{join, leave} {
		if len(c.channels) > 0 {
			commands = append(commands, c)
		}
	}
	s.inflight = append(s.inflight, commands...)
	return commands
}

// names are the arguments of the command.
func (c command) names() []string {
	names := make([]string, len(c.channels))
	for i, sub := range c.channels {
		names[i] = sub.name
	}
	return names
}

// confirm notes Redis's answer about one channel. It reports false if that is
// not the answer expected next: the two sides no longer agree.
func (s *registry) confirm(kind, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) == 0 {
		return false
	}
	c := &s.inflight[0]
	sub := c.channels[c.confirmed]
	if c.kind != kind || sub.name != name {
		return false
	}
	if c.confirmed++; c.confirmed == len(c.channels) {
		s.answered()
	}
	if kind == "unsubscribe" {
		sub.state = absent
		if sub.count == 0 {
			s.remove(sub)
		} else {
			s.push(sub)
		}
		return true
	}
	sub.state, sub.alone = live, false
	s.lives++
	s.settle(sub)
	if s.initial == 0 {
		// Not before: a call may also wait for channels that were confirmed on
		// the last link and are yet to come on this one.
		sub.finish(nil)
	}
	if sub.count == 0 {
		s.push(sub)
	}
	return true
}

// answered takes the first command off the list.
func (s *registry) answered() {
	s.inflight = s.inflight[1:]
	if len(s.pending) > 0 {
		s.wake()
	}
}

// refuse notes that Redis answered the first command with an error. Several
// channels are then asked for one by one; a single one is given up until
// somebody subscribes to it again or the link is renewed.
func (s *registry) refuse(reason error) (channel string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) == 0 || s.inflight[0].kind != "subscribe" || s.inflight[0].confirmed > 0 {
		return "", false
	}
	channels := s.inflight[0].channels
	s.answered()
	if len(channels) == 1 {
		sub := channels[0]
		sub.state, sub.alone = refused, false
		sub.finish(reason)
		s.settle(sub)
		if sub.count == 0 {
			s.remove(sub)
		}
		return strings.TrimPrefix(sub.name, s.prefix), true
	}
	for _, sub := range channels {
		sub.state, sub.alone = absent, true
		s.push(sub)
	}
	return "", true
}

// receiver is who gets the messages of a channel, and its name without the
// prefix; nil if nobody does.
func (s *registry) receiver(wire string) (deliver func(string, []byte), channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.channels[wire]
	if sub == nil || sub.count == 0 {
		return nil, ""
	}
	return sub.deliver, sub.name[len(s.prefix):]
}

// size is the number of channels wanted or not yet left, and of those live.
func (s *registry) size() (channels, lives int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.channels), s.lives
}
