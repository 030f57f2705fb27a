package memory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Link is the state of the connection to the broker. It is an alias of a plain
// struct, the same as in package backplane, which describes its fields.
type Link = struct {
	Up         bool
	Since      time.Time
	Generation uint64
	Lost       uint64
	Err        error
}

// SharedKey is a secret all instances have in common, and the clock they agree
// on. It is an alias of a plain interface, the same as in package backplane.
type SharedKey = interface {
	// Keys returns the key to sign with, and earlier ones that are still
	// acceptable; here there are none.
	Keys() (current []byte, previous [][]byte)
	// Now is the local time.
	Now() time.Time
}

// Backplane is one instance's end of a broker. It is safe for concurrent use.
type Backplane struct {
	broker *Broker
	wake   chan struct{} // capacity 1: there is something for Run

	// guarded by broker.mu
	subscriptions map[string]*subscription
	queue         []message
	bytes         int
	link          Link
	listeners     []func(Link)
	told          int // listeners that know the state
	started       bool
	closed        bool
}

type subscription struct {
	count   int
	deliver func(channel string, payload []byte)
}

// Run delivers messages until ctx ends, and returns nil. Afterwards the
// instance is no longer connected: what was queued is dropped, everything
// fails with ErrClosed.
func (p *Backplane) Run(ctx context.Context) error {
	p.broker.mu.Lock()
	if p.started {
		p.broker.mu.Unlock()
		return ErrRunTwice
	}
	p.started = true
	p.broker.mu.Unlock()
	defer p.close()
	for ctx.Err() == nil {
		p.tell()
		if m, deliver, ok := p.take(); !ok {
			select {
			case <-ctx.Done():
			case <-p.wake:
			}
		} else if deliver != nil {
			deliver(m.channel, m.payload)
		}
	}
	return nil
}

// take is the next message and who gets it; nil if nobody does any more.
func (p *Backplane) take() (m message, deliver func(string, []byte), ok bool) {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil
		return m, nil, false
	}
	m = p.queue[0]
	p.queue[0] = message{}
	p.queue = p.queue[1:]
	p.bytes -= m.size()
	if p.broker.waited && p.bytes <= QueueBytes-QueueBytes/4 {
		p.broker.look()
	}
	if sub := p.subscriptions[m.channel]; sub != nil {
		deliver = sub.deliver
	}
	return m, deliver, true
}

func (p *Backplane) close() {
	p.broker.mu.Lock()
	for channel := range p.subscriptions {
		p.withdraw(channel)
	}
	clear(p.subscriptions)
	delete(p.broker.instances, p)
	p.closed = true
	p.queue, p.bytes, p.told = nil, 0, 0
	if p.link.Up {
		p.link.Up, p.link.Since = false, time.Now()
	}
	p.link.Err = ErrClosed
	p.broker.look()
	p.broker.mu.Unlock()
	p.tell()
}

// Publish gives the message the next place in the broker's order and returns.
// The payload must not be changed afterwards. See the package comment for what
// happens when a receiver has no room.
func (p *Backplane) Publish(ctx context.Context, channel string, payload []byte) error {
	_, err := p.broker.publish(ctx, p, message{channel, payload})
	return err
}

// PublishConfirmed is Publish, and returns the number of instances that get
// the message.
func (p *Backplane) PublishConfirmed(ctx context.Context, channel string, payload []byte) (receivers int, err error) {
	return p.broker.publish(ctx, p, message{channel, payload})
}

// Subscribe counts one subscription of each channel: messages published after
// it has returned are delivered. The deliver function of the first subscriber
// serves the channel until its last subscription is gone. Each call needs its
// Unsubscribe, also one that returned ErrUnavailable because the instance is
// not linked: it counts from when it is linked again. After ErrClosed there is
// nothing to take back.
func (p *Backplane) Subscribe(_ context.Context, deliver func(channel string, payload []byte), channels ...string) error {
	if deliver == nil {
		return errors.New("memory: subscribe: deliver is nil")
	}
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	if len(channels) == 0 {
		return nil
	}
	if p.closed {
		return fmt.Errorf("memory: subscribe: %w", ErrClosed)
	}
	for _, channel := range channels {
		sub := p.subscriptions[channel]
		if sub == nil {
			sub = &subscription{deliver: deliver}
			p.subscriptions[channel] = sub
			if p.link.Up {
				p.announce(channel)
			}
		}
		sub.count++
	}
	if !p.link.Up {
		return fmt.Errorf("memory: subscribe: %w", ErrUnavailable)
	}
	return nil
}

// Unsubscribe takes back one subscription of each channel. A message that is
// being delivered at this moment may still arrive; nothing after it does.
// ErrNotSubscribed means that there was nothing to take back for one of the
// channels; the others were taken back.
func (p *Backplane) Unsubscribe(_ context.Context, channels ...string) error {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	var err error
	for _, channel := range channels {
		sub := p.subscriptions[channel]
		if sub == nil {
			err = fmt.Errorf("memory: unsubscribe %q: %w", channel, ErrNotSubscribed)
			continue
		}
		if sub.count--; sub.count == 0 {
			delete(p.subscriptions, channel)
			p.withdraw(channel)
		}
	}
	return err
}

// Receivers is the number of instances subscribed to the channel.
func (p *Backplane) Receivers(_ context.Context, channel string) (int, error) {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	switch {
	case p.closed:
		return 0, fmt.Errorf("memory: receivers: %w", ErrClosed)
	case !p.link.Up:
		return 0, fmt.Errorf("memory: receivers: %w", ErrUnavailable)
	}
	return len(p.broker.receivers[channel]), nil
}

// SharedKey is the secret of that name, the same for all instances of the
// broker. The error is always nil.
func (p *Backplane) SharedKey(_ context.Context, name string) (SharedKey, error) {
	return sharedKey(p.broker.key(name)), nil
}

type sharedKey []byte

func (k sharedKey) Keys() (current []byte, previous [][]byte) { return k, nil }
func (k sharedKey) Now() time.Time                            { return time.Now() }

// announce makes the instance a receiver of the channel. It and withdraw are
// called with broker.mu held.
func (p *Backplane) announce(channel string) {
	to := p.broker.receivers[channel]
	if to == nil {
		to = make(map[*Backplane]struct{})
		p.broker.receivers[channel] = to
	}
	to[p] = struct{}{}
}

func (p *Backplane) withdraw(channel string) {
	to := p.broker.receivers[channel]
	delete(to, p)
	if len(to) == 0 {
		delete(p.broker.receivers, channel)
	}
}

// Linked reports whether the instance is linked to the others.
func (p *Backplane) Linked() bool {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	return p.link.Up
}

// SetLinked cuts this instance off, as if its way to Redis were broken, or
// links it again.
func (p *Backplane) SetLinked(linked bool) {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	p.setLinked(linked)
}

// setLinked is called with broker.mu held.
func (p *Backplane) setLinked(linked bool) {
	if p.closed || p.link.Up == linked {
		return
	}
	p.link.Up, p.link.Since, p.link.Err = linked, time.Now(), nil
	p.told = 0
	if linked {
		p.link.Generation++
	} else {
		p.link.Err = ErrUnavailable
	}
	for channel := range p.subscriptions {
		if linked {
			p.announce(channel)
		} else {
			p.withdraw(channel)
		}
	}
	p.broker.look()
	p.notify()
}

// OnLink lets f know of the link: the state it has, once Run runs, and every
// change. Calls come one after the other on the goroutine of Run; f should be
// quick.
func (p *Backplane) OnLink(f func(Link)) {
	p.broker.mu.Lock()
	p.listeners = append(p.listeners, f)
	p.broker.mu.Unlock()
	p.notify()
}

// tell calls the listeners that do not know the state.
func (p *Backplane) tell() {
	p.broker.mu.Lock()
	link, listeners := p.link, p.listeners[p.told:]
	p.told = len(p.listeners)
	p.broker.mu.Unlock()
	for _, f := range listeners {
		f(link)
	}
}

func (p *Backplane) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
