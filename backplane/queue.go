package backplane

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// messageOverhead is what a queued message is charged beside its bytes.
const messageOverhead = 64

// keepCapacity is the length up to which an emptied queue keeps its memory.
const keepCapacity = 4096

// message is one PUBLISH that waits for its turn.
type message struct {
	channel string // without the prefix
	payload []byte
	confirm *confirmation // nil: nobody waits for the reply
}

func (m *message) size() int { return len(m.channel) + len(m.payload) + messageOverhead }

// confirmation carries the outcome of a message to who waits for it.
type confirmation struct {
	done      chan struct{} // closed once the fields are set
	receivers int
	err       error
}

func (m *message) settle(receivers int, err error) {
	if m.confirm != nil {
		m.confirm.receivers, m.confirm.err = receivers, err
		close(m.confirm.done)
	}
}

// gate says whether the queue takes messages.
type gate uint8

const (
	gateOpen   gate = iota // also while a short interruption is bridged
	gateShut               // Redis is declared away
	gateClosed             // for good
)

// publishQueue is the one order in which this process publishes.
type publishQueue struct {
	limit int
	ready chan struct{} // capacity 1: the queue or the gate changed

	mu      sync.Mutex
	gate    gate
	items   []message // from head on
	head    int
	bytes   int
	waiting int           // callers that wait for room
	changed chan struct{} // closed when they should look again
}

func newPublishQueue(limit int) *publishQueue {
	return &publishQueue{limit: limit, ready: make(chan struct{}, 1), changed: make(chan struct{})}
}

// put gives the message its place. A full queue makes it wait for ctx, at
// most waitLimit.
func (q *publishQueue) put(ctx context.Context, m message) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("backplane: publish: %w", err)
	}
	if m.size() > q.limit {
		return fmt.Errorf("backplane: publish: %w: %d bytes", ErrTooLarge, len(m.payload))
	}
	q.mu.Lock()
	done, err := q.tryPut(m)
	q.mu.Unlock()
	if done || err != nil {
		return err
	}
	return q.putWaiting(ctx, m)
}

// tryPut is called with mu held.
func (q *publishQueue) tryPut(m message) (bool, error) {
	switch q.gate {
	case gateShut:
		return false, fmt.Errorf("backplane: publish: %w", ErrUnavailable)
	case gateClosed:
		return false, fmt.Errorf("backplane: publish: %w", ErrClosed)
	}
	if q.bytes+m.size() > q.limit {
		return false, nil
	}
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, m)
	q.bytes += m.size()
	if len(q.items)-q.head == 1 {
		q.wake()
	}
	return true, nil
}

func (q *publishQueue) putWaiting(ctx context.Context, m message) error {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		q.mu.Lock()
		done, err := q.tryPut(m)
		if done || err != nil {
			q.mu.Unlock()
			return err
		}
		q.waiting++
		changed := q.changed
		q.mu.Unlock()

		stop := false
		select {
		case <-changed:
		case <-ctx.Done():
			stop = true
		case <-limit.C:
			stop = true
		}
		q.mu.Lock()
		q.waiting--
		q.mu.Unlock()
		if stop {
			return waitError(ctx, "publish: queue is full")
		}
	}
}

// peek appends the next messages to dst, at most n and as many bytes, yet at
// least one if there is one. They stay in the queue until drop.
func (q *publishQueue) peek(dst []message, n, bytes int) []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.items[q.head:] {
		bytes -= m.size()
		if len(dst) > 0 && (bytes < 0 || len(dst) == n) {
			break
		}
		dst = append(dst, m)
	}
	return dst
}

// drop takes the first n messages out.
func (q *publishQueue) drop(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := q.head; i < q.head+n; i++ {
		q.bytes -= q.items[i].size()
		q.items[i] = message{}
	}
	q.head += n
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keepCapacity {
			q.items = nil
		}
		if q.gate == gateClosed {
			q.wake() // whoever drains it wants to know
		}
	}
	if q.waiting > 0 && q.bytes <= q.limit-q.limit/4 {
		q.broadcast()
	}
}

// set changes the gate and returns what is queued if the gate is shut or
// closed; the queue is then empty unless keep is true.
func (q *publishQueue) set(to gate, keep bool) []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gate = to
	q.broadcast()
	q.wake()
	if to == gateOpen || keep {
		return nil
	}
	rest := q.items[q.head:]
	q.items, q.head, q.bytes = nil, 0, 0
	return rest
}

// load is the number of messages and bytes that wait, and the gate.
func (q *publishQueue) load() (messages, bytes int, g gate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.head, q.bytes, q.gate
}

func (q *publishQueue) broadcast() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *publishQueue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
