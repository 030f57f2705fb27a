package backplane

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Link is the state of the connection to Redis. It is an alias of a plain
// struct so that a package that does not import this one can name the same
// type.
type Link = struct {
	// Up says that Redis has confirmed every subscription and takes messages.
	// While it is false Publish and Subscribe fail at once.
	Up bool
	// Since is when this state began: for a link that went down the last sign
	// of life.
	Since time.Time
	// Generation counts the links there have been. When it grows, what others
	// published between two links was not received, also if Up stayed true
	// because the interruption was short.
	Generation uint64
	// Lost is the number of messages so far of which nobody knows whether
	// they were delivered.
	Lost uint64
	// Err is why the link is down; nil if it is up.
	Err error
}

// Linked reports whether the link is up, a short interruption included.
func (r *Redis) Linked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Up
}

// OnLink lets f know of the link: the state it has, at first that the link is
// up or that Redis is declared away, and every change: down, up, another generation, more messages lost.
// Calls come one after the other on a goroutine of Run; f should be quick and
// must not wait for messages it publishes. When
// a link goes down, what was queued has been handed to Options.Unsent before f
// is told; when it comes up, nothing is published before f was.
func (r *Redis) OnLink(f func(Link)) {
	r.mu.Lock()
	r.listeners = append(r.listeners, f)
	r.mu.Unlock()
	r.notify()
}

func (r *Redis) notify() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// noteLost lets the listeners know of messages lost.
func (r *Redis) noteLost() {
	r.setLink(func(state *Link) { state.Lost = r.stats.lost.Load() })
	r.mu.Lock()
	r.told = 0
	r.mu.Unlock()
	r.notify()
}

// setLink changes the state.
func (r *Redis) setLink(change func(state *Link)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
}

// setBridging says whether a link may come any moment, and makes those look
// who wait for one.
func (r *Redis) setBridging(bridging bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bridging = bridging
	close(r.changed)
	r.changed = make(chan struct{})
}

// tell calls the listeners: all of them, or those that do not know the state.
func (r *Redis) tell(all bool) {
	r.mu.Lock()
	state := r.state
	if state.Generation == 0 && state.Err == nil {
		r.mu.Unlock()
		return // the first attempt is under way; its outcome will be told
	}
	listeners := r.listeners
	if !all {
		listeners = listeners[r.told:]
	}
	r.told = len(r.listeners)
	r.mu.Unlock()
	for _, f := range listeners {
		f(state)
	}
}

// counters are what Stats reads.
type counters struct {
	published, batches, refused, lost, unsent, received, discarded, links atomic.Uint64
}

// Stats is a snapshot of what a backplane has done and holds. Counts are since
// New.
type Stats struct {
	Published uint64 // messages Redis has confirmed
	Batches   uint64 // pipelines they were written in
	Refused   uint64 // messages Redis answered with an error
	Lost      uint64 // messages written, with no answer before the link broke
	Unsent    uint64 // messages queued and never written
	Received  uint64 // messages delivered
	Discarded uint64 // messages of channels nobody here wants (any more)
	Links     uint64 // links established; all but the first are reconnects

	Channels   int // channels wanted or not yet left
	Subscribed int // channels of which Redis has confirmed the subscription

	QueueMessages int // messages that wait to be written
	QueueBytes    int // what they are charged
}

// Stats returns a snapshot.
func (r *Redis) Stats() Stats {
	s := Stats{
		Published: r.stats.published.Load(),
		Batches:   r.stats.batches.Load(),
		Refused:   r.stats.refused.Load(),
		Lost:      r.stats.lost.Load(),
		Unsent:    r.stats.unsent.Load(),
		Received:  r.stats.received.Load(),
		Discarded: r.stats.discarded.Load(),
		Links:     r.stats.links.Load(),
	}
	s.Channels, s.Subscribed = r.registry.size()
	s.QueueMessages, s.QueueBytes, _ = r.queue.load()
	return s
}

// limitedLog warns about losses once a second at most, with the number of
// messages since the last time.
type limitedLog struct {
	mu    sync.Mutex
	next  time.Time
	count uint64
}

const logInterval = time.Second

func (l *limitedLog) warn(log *slog.Logger, text string, messages uint64, err error) {
	l.mu.Lock()
	l.count += messages
	now := time.Now()
	if now.Before(l.next) {
		l.mu.Unlock()
		return
	}
	messages, l.count, l.next = l.count, 0, now.Add(logInterval)
	l.mu.Unlock()
	log.Warn(text, "messages", messages, "err", err)
}

// wrap names what was being done; nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("backplane: %s: %w", what, err)
}
