package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// QueueBytes bounds what waits for the deliver functions of one instance,
	// in bytes of channel name and payload plus an overhead per message.
	QueueBytes = 64 << 20
	// WaitLimit bounds every wait of a caller.
	WaitLimit = 5 * time.Second

	messageOverhead = 64
	keyBytes        = 32
)

// Errors callers branch on, with errors.Is. ErrUnavailable and ErrClosed have
// a method Unavailable() bool that returns true, as those of package backplane.
var (
	// ErrUnavailable says that the instance is not linked, or that a receiver
	// had no room in time. What was asked has not been done.
	ErrUnavailable error = &unavailableError{text: "backplane is unavailable"}
	// ErrClosed says that Run has ended. It is also an ErrUnavailable.
	ErrClosed error = &unavailableError{text: "backplane is closed", also: ErrUnavailable}
	// ErrNotSubscribed says that Unsubscribe was called more often than
	// Subscribe.
	ErrNotSubscribed = errors.New("not subscribed")
	// ErrTooLarge says that a message is larger than QueueBytes.
	ErrTooLarge = errors.New("message is larger than a queue")
	// ErrRunTwice says that Run was called a second time.
	ErrRunTwice = errors.New("memory: Run was called twice")
)

type unavailableError struct {
	text string
	also error
}

func (e *unavailableError) Error() string        { return e.text }
func (e *unavailableError) Is(target error) bool { return e.also != nil && target == e.also }

// Unavailable is true: this error means that the backplane was not there.
func (e *unavailableError) Unavailable() bool { return true }

// Broker carries the messages of the instances connected to it. It needs no
// goroutine and no end.
type Broker struct {
	mu        sync.Mutex
	instances map[*Backplane]struct{}
	receivers map[string]map[*Backplane]struct{} // by channel: subscribed and linked
	keys      map[string][]byte
	claims    map[string]claim
	sweep     int           // how many claims there may be before the next look
	changed   chan struct{} // closed when a waiting publisher should look again
	waited    bool          // somebody waits for it
}

// New returns a broker without instances.
func New() *Broker {
	return &Broker{
		instances: make(map[*Backplane]struct{}),
		receivers: make(map[string]map[*Backplane]struct{}),
		keys:      make(map[string][]byte),
		claims:    make(map[string]claim),
		sweep:     sweepAbove,
		changed:   make(chan struct{}),
	}
}

// Connect returns the backplane of one more instance. It delivers while its
// Run runs, and belongs to the broker until then.
func (b *Broker) Connect() *Backplane {
	p := &Backplane{
		broker:        b,
		wake:          make(chan struct{}, 1),
		subscriptions: make(map[string]*subscription),
		link:          Link{Up: true, Since: time.Now(), Generation: 1},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances[p] = struct{}{}
	return p
}

// SetLinked cuts all instances off, as if Redis went away, or links them
// again.
func (b *Broker) SetLinked(linked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.instances {
		p.setLinked(linked)
	}
}

// publish gives the message its place in the queue of every receiver.
func (b *Broker) publish(ctx context.Context, from *Backplane, m message) (receivers int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("memory: publish: %w", err)
	}
	if m.size() > QueueBytes {
		return 0, fmt.Errorf("memory: publish: %w: %d bytes", ErrTooLarge, len(m.payload))
	}
	receivers, changed, err := b.tryPublish(from, m)
	if changed == nil {
		return receivers, err
	}
	limit := time.NewTimer(WaitLimit)
	defer limit.Stop()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("memory: publish: queue is full: %w", ctx.Err())
		case <-limit.C:
			return 0, fmt.Errorf("memory: publish: queue is full: %w", ErrUnavailable)
		}
		if receivers, changed, err = b.tryPublish(from, m); changed == nil {
			return receivers, err
		}
	}
}

// tryPublish returns a channel to wait for if a receiver has no room.
func (b *Broker) tryPublish(from *Backplane, m message) (receivers int, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case from.closed:
		return 0, nil, fmt.Errorf("memory: publish: %w", ErrClosed)
	case !from.link.Up:
		return 0, nil, fmt.Errorf("memory: publish: %w", ErrUnavailable)
	}
	to := b.receivers[m.channel]
	for p := range to {
		if p.bytes+m.size() > QueueBytes {
			b.waited = true
			return 0, b.changed, nil
		}
	}
	for p := range to {
		p.queue = append(p.queue, m)
		p.bytes += m.size()
		p.notify()
	}
	return len(to), nil, nil
}

// look makes waiting publishers look again. It is called with mu held.
func (b *Broker) look() {
	close(b.changed)
	b.waited = false
	b.changed = make(chan struct{})
}

// key is the secret of that name, the same for all instances.
func (b *Broker) key(name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.keys[name]
	if !ok {
		key = make([]byte, keyBytes)
		rand.Read(key) // never fails
		b.keys[name] = key
	}
	return key
}

type message struct {
	channel string
	payload []byte
}

func (m message) size() int { return len(m.channel) + len(m.payload) + messageOverhead }
