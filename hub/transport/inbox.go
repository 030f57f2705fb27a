package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxBody is how much of a client's POSTs waits for Receive, in bytes, and the
// largest body that is read to its end before any of it is handed over.
const maxBody = 64 << 10

// errGone ends the inbox of a connection that never began.
var errGone = errors.New("transport: nothing was attached in time")

// errBacklog refuses bytes for which there is no room and nobody who reads.
var errBacklog = errors.New("transport: too many bytes before the connection")

// An inbox is the client's byte stream where it comes in POSTs. They put their
// bytes in, one after the other, and Receive takes them out.
type inbox struct {
	// fixed
	epoch   time.Time
	arrived chan struct{} // room for 1: Receive has to look again
	room    chan struct{} // room for 1: put has to look again
	turn    chan struct{} // room for 1: whoever has put something in may POST
	over    chan struct{} // closed by end

	last atomic.Int64 // when the last byte came, in nanoseconds since epoch

	mu     sync.Mutex
	unread []byte // guarded by mu
	err    error  // guarded by mu: what Receive returns behind unread; nil while there may be more
	abort  func() // guarded by mu: frees the POST that reads its body; nil if none does
}

func (b *inbox) init(epoch time.Time) {
	b.epoch = epoch
	b.arrived = make(chan struct{}, 1)
	b.room = make(chan struct{}, 1)
	b.turn = make(chan struct{}, 1)
	b.over = make(chan struct{})
}

// signal makes whoever waits for c, or is about to, look again.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// note keeps when the last byte came.
func (b *inbox) note() { b.last.Store(int64(time.Since(b.epoch))) }

// receive waits for bytes and takes all there are.
func (b *inbox) receive() ([]byte, error) {
	for {
		b.mu.Lock()
		piece, err := b.unread, b.err
		b.unread = nil
		b.mu.Unlock()
		switch {
		case len(piece) > 0:
			signal(b.room)
			return piece, nil
		case err != nil:
			return nil, err
		}
		<-b.arrived
	}
}

// put adds a piece, which then belongs to the inbox, and waits while there is
// no room for it. After the end it fails with what ended the connection.
func (b *inbox) put(ctx context.Context, piece []byte) error {
	for {
		b.mu.Lock()
		err, size := b.err, len(b.unread)
		fits := err == nil && (size == 0 || size+len(piece) <= maxBody)
		switch {
		case !fits:
		case size == 0:
			b.unread = piece
		default:
			b.unread = append(b.unread, piece...)
		}
		b.mu.Unlock()
		switch {
		case err != nil:
			return err
		case fits:
			b.note()
			signal(b.arrived)
			return nil
		}
		select {
		case <-b.room:
		case <-b.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end ends the stream behind what is unread already, and frees whoever waits.
// Only the first call has an effect; it reports whether it was that.
func (b *inbox) end(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return false
	}
	b.err = err
	close(b.over)
	signal(b.arrived)
	if b.abort != nil {
		b.abort()
	}
	return true
}

// drop ends the stream at once.
func (b *inbox) drop(err error) {
	b.end(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = nil
}

// read runs f, which reads the body of a POST, and calls abort meanwhile when
// the end comes.
func (b *inbox) read(abort func(), f func() error) error {
	b.mu.Lock()
	err := b.err
	if err == nil {
		b.abort = abort
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.abort = nil
	}()
	return f()
}

// ended reports whether end was called.
func (b *inbox) ended() bool {
	select {
	case <-b.over:
		return true
	default:
		return false
	}
}

// lastReceived is when the last byte came, counted from start.
func (b *inbox) lastReceived(start time.Time) time.Duration {
	return max(0, time.Duration(b.last.Load())-start.Sub(b.epoch))
}

// take takes what is unread without waiting.
func (b *inbox) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	piece := b.unread
	b.unread = nil
	return piece
}
