package client

import (
	"context"
	"sync"
)

// An outbound holds whole records until the writer takes them all at once. It
// is bounded: put waits while its record does not fit behind others.
type outbound struct {
	wake chan struct{} // holds one token while there may be something to take

	mu   sync.Mutex
	buf  []byte
	room chan struct{} // closed and replaced when buf is taken
}

func newOutbound() *outbound {
	return &outbound{wake: make(chan struct{}, 1), room: make(chan struct{})}
}

// put appends a record. It fails with ErrConnectionLost when done is closed,
// and with the error of ctx when that ends while it waits for room.
func (o *outbound) put(ctx context.Context, done <-chan struct{}, record []byte) error {
	for {
		select {
		case <-done:
			return ErrConnectionLost
		default:
		}
		o.mu.Lock()
		if len(o.buf) == 0 || len(o.buf)+len(record) <= maxOutboundBytes {
			o.append(record)
			o.mu.Unlock()
			return nil
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return ErrConnectionLost
		}
	}
}

// force appends a record whether it fits or not. It is for those whose number
// is limited by other things: pings and the cancellations of calls.
func (o *outbound) force(record []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(record)
}

// append needs mu.
func (o *outbound) append(record []byte) {
	o.buf = append(o.buf, record...)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns everything and leaves free, an old buffer, in its place.
func (o *outbound) take(free []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.buf
	o.buf = free[:0]
	if cap(free) > 2*maxOutboundBytes { // one record was very large
		o.buf = nil
	}
	if len(taken) > 0 {
		close(o.room)
		o.room = make(chan struct{})
	}
	return taken
}
