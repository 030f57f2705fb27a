package client

import (
	"context"
	"sync"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// An outbound holds whole records until the writer takes them all at once. It
// is bounded: put waits while its record does not fit behind others.
//
// With stateful reconnects it also keeps the records that both sides count,
// from put until the server acknowledges them, so that rewind can send them
// again; put waits while more bytes than the limit are kept.
type outbound struct {
	keep  bool          // fixed
	limit int           // fixed
	wake  chan struct{} // holds one token while there may be something to take

	mu        sync.Mutex
	buf       []byte
	room      chan struct{} // closed and replaced when buf is taken or kept shrinks
	kept      [][]byte
	keptBytes int
	first     int64 // number of the first of kept, or of the next to come
}

func newOutbound() *outbound {
	return &outbound{wake: make(chan struct{}, 1), room: make(chan struct{}), first: 1}
}

// put appends a record that counts. It fails with ErrConnectionLost when done
// is closed, and with the error of ctx when that ends while it waits for room.
// The record must not be changed any more.
func (o *outbound) put(ctx context.Context, done <-chan struct{}, record []byte) error {
	for {
		select {
		case <-done:
			return ErrConnectionLost
		default:
		}
		o.mu.Lock()
		if o.fits(len(record)) {
			o.append(record, true)
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

// fits needs mu. The record that crosses the limit is still accepted, as by
// SignalR.
func (o *outbound) fits(size int) bool {
	return (len(o.buf) == 0 || len(o.buf)+size <= maxOutboundBytes) && o.keptBytes <= o.limit
}

// force appends a record that does not count, such as a ping, whether it fits
// or not.
func (o *outbound) force(record []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(record, false)
}

// insist appends a record that counts whether it fits or not. It is for those
// whose number is limited by other things: the cancellations of calls.
func (o *outbound) insist(record []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(record, true)
}

// append needs mu.
func (o *outbound) append(record []byte, counts bool) {
	o.buf = append(o.buf, record...)
	if counts && o.keep {
		o.kept = append(o.kept, record)
		o.keptBytes += len(record)
	}
	o.signal()
}

// signal needs mu.
func (o *outbound) signal() {
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
		o.letIn()
	}
	return taken
}

// letIn needs mu.
func (o *outbound) letIn() {
	close(o.room)
	o.room = make(chan struct{})
}

// acknowledge forgets what the server has handled, up to a number.
func (o *outbound) acknowledge(number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for n < len(o.kept) && o.first <= number {
		o.keptBytes -= len(o.kept[n])
		o.kept[n] = nil
		o.first++
		n++
	}
	if o.kept = o.kept[n:]; len(o.kept) == 0 {
		o.kept = nil
	}
	if n > 0 {
		o.letIn()
	}
}

// rewind replaces what waits to be written by what a new socket begins with:
// the Sequence and everything that was not acknowledged. Records that do not
// count are lost.
func (o *outbound) rewind(p protocol.Protocol) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = p.AppendSequence(o.buf[:0], o.first)
	for _, record := range o.kept {
		o.buf = append(o.buf, record...)
	}
	o.signal()
}
