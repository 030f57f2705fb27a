package hub

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

const (
	// uploadBacklog bounds what one connection's uploads hold beyond their
	// buffers, in bytes; above it the reader waits.
	uploadBacklog = 1 << 20

	// uploadPatience is how long the reader waits for a method to read its
	// stream before it gives that stream up.
	uploadPatience = 30 * time.Second

	// itemOverhead is what an item holds besides its bytes, about.
	itemOverhead = 48
)

// ErrUploadStalled ends a client's stream that a method did not read for 30 s
// while the buffers behind it were full.
var ErrUploadStalled = errors.New("hub: the method did not read its stream in time")

// An Upload is a stream that a client sends to a method: a parameter of type
// *Upload[T] of any method function. It is read by one goroutine, and ends with
// the method: what the client still sends then is dropped.
//
// StreamBufferCapacity items wait for the method, more are held up to 1 MiB for
// all uploads of a connection, and then nothing is read from that client until
// the method goes on; after 30 s the stream ends with ErrUploadStalled.
type Upload[T any] struct {
	in  *incoming
	ctx context.Context // the call's, with which the stream ends
}

// All iterates over the items. An error is the last element: a *Error with the
// client's text when the client ended the stream with one, a *Error when an
// item is no T, ErrUploadStalled, or the cause for which the call has ended.
// Iterating again goes on where the last iteration stopped.
func (u *Upload[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, more, err := u.next()
			if !more && err == nil || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// next waits for the next item; more is false at the end.
func (u *Upload[T]) next() (v T, more bool, err error) {
	raw, ok, err := u.in.next(u.ctx)
	if !ok || err != nil {
		return v, false, err
	}
	v, err = protocol.Decode[T](u.in.conn.protocol, raw)
	if err != nil {
		u.in.stop(Errorf("Failed to bind Stream message."))
		_, _, err = u.in.next(u.ctx)
	}
	return v, err == nil, err
}

// open makes the parameter; it tells uploads from other parameters.
func (*Upload[T]) open(ctx context.Context, in *incoming) any { return &Upload[T]{in: in, ctx: ctx} }

type upload interface {
	open(ctx context.Context, in *incoming) any
}

// isUpload reports whether the parameter type is an *Upload. An Upload that is no
// pointer is a mistake in the program, and panics.
func isUpload[T any]() bool {
	var zero T
	if _, ok := any(zero).(upload); ok {
		return true
	}
	if _, ok := any(&zero).(upload); ok {
		panic("hub: a parameter is an Upload: it must be an *Upload")
	}
	return false
}

// nextUpload binds the next upload; nil when the client has sent too few, which
// admit refuses.
func nextUpload[T any](k *call) (u T) {
	if k.uploads < len(k.in.uploads) {
		in := k.in.uploads[k.uploads]
		u, _ = any(u).(upload).open(k.ctx, in).(T)
	}
	k.uploads++
	return u
}

// uploads are the client's streams that methods read, by their ids.
type uploads struct {
	mu      sync.Mutex
	byID    map[string]*incoming
	backlog int           // bytes held beyond the buffers
	room    chan struct{} // not nil while the reader waits
}

// An incoming is one upload on this side. Its fields are guarded by the
// connection's uploads.mu.
type incoming struct {
	conn *conn
	id   string

	items [][]byte      // raw values
	ended bool          // nothing follows the items
	err   error         // what follows them, if ended
	wake  chan struct{} // not nil while the method waits
}

// openUploads registers the streams of a call before it can run. A call that
// does not fit its method, and so will be refused, opens none.
func (c *conn) openUploads(in *invocation) {
	ids := in.message.StreamIDs
	if m := c.hub.method(in.message.Target); len(ids) == 0 || m == nil || m.uploads != len(ids) {
		return
	}
	u := &c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byID == nil {
		u.byID = make(map[string]*incoming)
	}
	for _, id := range ids {
		s := &incoming{conn: c, id: string(id)}
		if old := u.byID[s.id]; old != nil {
			old.finish(Errorf("The stream's id was used again."))
		}
		u.byID[s.id] = s
		in.uploads = append(in.uploads, s)
	}
}

// closeUploads forgets the streams of a call that is over.
func (c *conn) closeUploads(in *invocation) {
	if len(in.uploads) == 0 {
		return
	}
	u := &c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range in.uploads {
		if u.byID[s.id] == s {
			delete(u.byID, s.id)
		}
		s.drop()
		s.finish(context.Canceled) // for whoever still reads it
	}
	clear(in.uploads)
	in.uploads = in.uploads[:0]
}

// abandonUploads ends the streams of a client that will send no more.
func (c *conn) abandonUploads(err error) {
	u := &c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.byID {
		s.finish(err)
	}
}

// upload hands an item to the stream it belongs to and reports whether there is
// such a stream. It waits, within bounds, while too much waits already.
func (c *conn) upload(m *protocol.Message) bool {
	u := &c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.byID[string(m.InvocationID)]
	if s == nil {
		return false
	}
	if s.ended {
		return true
	}
	size := len(m.Value) + itemOverhead
	if len(s.items) >= c.hub.opts.StreamBufferCapacity {
		if u.backlog > 0 && u.backlog+size > uploadBacklog {
			c.awaitUploads(s, size)
		}
		if s.ended {
			return true
		}
	}
	if len(s.items) >= c.hub.opts.StreamBufferCapacity {
		u.backlog += size
	}
	s.items = append(s.items, append([]byte(nil), m.Value...))
	s.signal()
	return true
}

// awaitUploads waits until the backlog has room for size bytes; u.mu is held,
// and given up meanwhile. A stream that finds none in time is given up.
func (c *conn) awaitUploads(s *incoming, size int) {
	u := &c.uploads
	patience := time.NewTimer(uploadPatience)
	defer patience.Stop()
	c.hub.stats.uploadWaits.Add(1)
	c.blocked.Store(true)
	defer func() {
		c.touch()
		c.blocked.Store(false)
	}()
	for !s.ended && u.backlog > 0 && u.backlog+size > uploadBacklog && len(s.items) >= c.hub.opts.StreamBufferCapacity {
		room := make(chan struct{})
		u.room = room
		u.mu.Unlock()
		select {
		case <-room:
			u.mu.Lock()
		case <-c.ctx.Done():
			u.mu.Lock()
			return
		case <-patience.C:
			u.mu.Lock()
			c.hub.stats.uploadsStalled.Add(1)
			s.drop()
			s.finish(ErrUploadStalled)
			return
		}
	}
}

// endUpload ends the stream that a completion names and reports whether there
// is one.
func (c *conn) endUpload(m *protocol.Message) bool {
	u := &c.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.byID[string(m.InvocationID)]
	if s == nil {
		return false
	}
	delete(u.byID, s.id)
	var err error
	if m.HasError {
		err = Errorf("%s", m.Error)
	}
	s.finish(err)
	return true
}

// next waits for the next raw item; ok is false behind the last one.
func (s *incoming) next(ctx context.Context) (raw []byte, ok bool, err error) {
	u := &s.conn.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(s.items) == 0 && !s.ended {
		wake := make(chan struct{})
		s.wake = wake
		u.mu.Unlock()
		select {
		case <-wake:
			u.mu.Lock()
		case <-ctx.Done():
			u.mu.Lock()
			if s.ended && s.err != nil {
				return nil, false, s.err
			}
			return nil, false, context.Cause(ctx)
		}
	}
	if len(s.items) == 0 {
		return nil, false, s.err
	}
	if n := s.conn.hub.opts.StreamBufferCapacity; len(s.items) > n {
		s.release(s.items[n : n+1]) // moves up into the buffer
	}
	raw = s.items[0]
	s.items[0] = nil
	s.items = s.items[1:]
	s.wakeReader()
	return raw, true, nil
}

// stop makes the stream end with err behind nothing.
func (s *incoming) stop(err error) {
	s.conn.uploads.mu.Lock()
	defer s.conn.uploads.mu.Unlock()
	s.drop()
	s.ended, s.err = true, err
	s.signal()
	s.wakeReader()
}

// finish says that nothing follows the items but err; uploads.mu is held.
func (s *incoming) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	s.signal()
	s.wakeReader()
}

// drop forgets the items; uploads.mu is held.
func (s *incoming) drop() {
	if n := s.conn.hub.opts.StreamBufferCapacity; len(s.items) > n {
		s.release(s.items[n:])
	}
	s.items = nil
}

// release takes items out of the backlog; uploads.mu is held.
func (s *incoming) release(items [][]byte) {
	for _, item := range items {
		s.conn.uploads.backlog -= len(item) + itemOverhead
	}
	s.wakeReader()
}

func (s *incoming) wakeReader() {
	u := &s.conn.uploads
	if u.room != nil {
		close(u.room)
		u.room = nil
	}
}

// signal wakes the method; uploads.mu is held.
func (s *incoming) signal() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}
