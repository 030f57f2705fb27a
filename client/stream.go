package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Stream calls a hub method that streams. Ranging over what it returns makes
// the call, each time anew, and yields the items in order:
//
//	for price, err := range client.Stream[float64](ctx, c, "Prices", "ACME") {
//
// An error is the last thing it yields: a *HubError if the method failed,
// behind the items it had given before; the error of ctx; ErrNotConnected or
// ErrConnectionLost; a *protocol.Error for an item that does not fit T.
// Leaving the loop and the end of ctx tell the hub to cancel the method.
// Arguments are those of Invoke.
//
// Items wait for the loop in a buffer, Options.StreamBufferCapacity of them.
// When it is full the client stops reading, as for a full queue of handlers,
// for at most 10 s; then the stream is cancelled and ends, behind what was
// buffered, with ErrStreamStalled. So a loop must not wait for something that
// arrives on the same connection longer than its buffer lasts.
func Stream[T any](ctx context.Context, c *Client, target string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		in := newItems(c.opts.StreamBufferCapacity)
		p, err := c.begin(ctx, target, args, in)
		if err != nil {
			yield(zero, err)
			return
		}
		defer in.leave()
		defer p.abandon()
		for {
			raw, ok, err := p.nextItem(ctx, target)
			if err != nil {
				yield(zero, err)
				return
			}
			if !ok {
				return
			}
			v, err := protocol.Decode[T](c.opts.Protocol, raw)
			if err != nil {
				yield(zero, fmt.Errorf("client: item of %s: %w", target, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// nextItem waits for an item. It returns false after the last one.
func (p *pending) nextItem(ctx context.Context, target string) (raw []byte, ok bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, fmt.Errorf("client: stream %s: %w", target, err)
		}
		if raw, ok := p.items.take(); ok {
			return raw, true, nil
		}
		select {
		case <-p.items.wake:
		case <-ctx.Done():
		case o := <-p.answer:
			// All items were put before it.
			if raw, ok := p.items.take(); ok {
				p.answer <- o
				return raw, true, nil
			}
			_, err := o.result(target)
			return nil, false, err
		}
	}
}

// handleItem gives an item to its stream and waits for room there. Items of
// unknown streams are ignored: they were cancelled.
func (s *session) handleItem(m *protocol.Message) error {
	w := s.calls.find(m.InvocationID)
	if w == nil {
		return nil
	}
	if w.items == nil { // the method streams, and a plain call cannot take that
		s.calls.settle(m.InvocationID, outcome{err: errStreamItem})
		return nil
	}
	raw := append([]byte{}, m.Value...)
	room := w.items.tryPut(raw)
	if room == nil {
		return nil
	}
	limit := time.NewTimer(stallTimeout)
	defer limit.Stop()
	for room != nil {
		select {
		case <-room:
			room = w.items.tryPut(raw)
		case <-w.items.left:
			return nil
		case <-s.done:
			return errEnded
		case <-limit.C:
			id := string(m.InvocationID)
			s.client.opts.Logger.Warn("stream stalled", "conn", s.connectionID)
			s.calls.settle(m.InvocationID, outcome{err: ErrStreamStalled})
			s.cancel(id)
			return nil
		}
	}
	return nil
}

// items are those of one stream that its loop has not taken. They are bounded
// in number and bytes.
type items struct {
	limit int
	wake  chan struct{} // holds one token while there may be something to take
	left  chan struct{} // closed when nobody takes any more

	mu    sync.Mutex
	queue [][]byte
	bytes int
	room  chan struct{} // not nil while the reader waits; closed by take
}

func newItems(limit int) *items {
	return &items{limit: limit, wake: make(chan struct{}, 1), left: make(chan struct{})}
}

// tryPut appends an item, or returns what to wait for.
func (in *items) tryPut(raw []byte) (room <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n := len(in.queue); n > 0 && (n >= in.limit || in.bytes+len(raw) > maxStreamBytes) {
		if in.room == nil {
			in.room = make(chan struct{})
		}
		return in.room
	}
	in.queue = append(in.queue, raw)
	in.bytes += len(raw)
	select {
	case in.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns the oldest item, if there is one.
func (in *items) take() (raw []byte, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		return nil, false
	}
	raw = in.queue[0]
	in.queue[0] = nil
	if in.queue = in.queue[1:]; len(in.queue) == 0 {
		in.queue = nil
	}
	in.bytes -= len(raw)
	if in.room != nil {
		close(in.room)
		in.room = nil
	}
	return raw, true
}

// leave lets go of a reader that waits. It is called once.
func (in *items) leave() { close(in.left) }
