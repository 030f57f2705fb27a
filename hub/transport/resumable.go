package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// errNotResumed is what Receive returns when no socket has taken a lost one's
// place in time, or none may any more.
var errNotResumed = errors.New("transport: the socket was lost and none took its place")

// A resumable is a Conn on one WebSocket after the other.
type resumable struct {
	// fixed
	rec   *record
	start time.Time

	// owned by the reader
	current  *socket // nil while detached
	early    []byte  // what came in POSTs before the first socket
	detached time.Time

	changed chan struct{} // room for 1: the waiting Receive has to look again

	mu      sync.Mutex
	allowed bool          // guarded by mu: see AllowResume
	closing bool          // guarded by mu: SendClose was called, or the client's close frame has come
	err     error         // guarded by mu: why it is over; nil while it is not
	live    *socket       // guarded by mu: the reader's; nil while detached
	next    *socket       // guarded by mu: has taken the place of live, and Receive has not said so yet
	through bool          // guarded by mu: Send may write to live
	remote  string        // guarded by mu: of the latest socket
	last    time.Duration // guarded by mu: LastReceived of the sockets that were lost
}

var _ ResumableConn = (*resumable)(nil)

func newResumable(rec *record, first *socket, early []byte) *resumable {
	return &resumable{
		rec: rec, start: first.wire.start, current: first, early: early, changed: make(chan struct{}, 1),
		live: first, through: true, remote: first.remote,
	}
}

func (c *resumable) ID() string         { return c.rec.id }
func (c *resumable) Kind() Kind         { return WebSockets }
func (c *resumable) Binary() bool       { return true }
func (c *resumable) Age() time.Duration { return time.Since(c.start) }

func (c *resumable) RemoteAddr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remote
}

func (c *resumable) LastReceived() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReceived()
}

// lastReceived is LastReceived. mu is held.
func (c *resumable) lastReceived() time.Duration {
	if c.live == nil {
		return c.last
	}
	return max(c.last, c.live.wire.start.Sub(c.start)+c.live.LastReceived())
}

// Receive implements Conn and ResumableConn.
func (c *resumable) Receive() ([]byte, error) {
	if early := c.early; len(early) > 0 {
		c.early = nil
		return early, nil
	}
	if c.current == nil {
		return nil, c.await()
	}
	piece, err := c.current.Receive()
	if err != nil {
		return nil, c.lost(err)
	}
	return piece, nil
}

// lost decides what the end of the reader's socket means.
func (c *resumable) lost(err error) error {
	c.current.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.lastReceived()
	switch {
	case c.err != nil:
		return fmt.Errorf("transport: receive: %w", c.err)
	case c.next == nil && (err == io.EOF || c.closing || !c.allowed):
		c.closing = true // nothing takes the place of this one
		return err
	}
	c.current, c.live, c.through = nil, nil, false
	c.detached = time.Now()
	return ErrDetached
}

// await waits for another socket.
func (c *resumable) await() error {
	timer := time.NewTimer(time.Until(c.detached.Add(c.rec.endpoint.opts.DisconnectTimeout)))
	defer timer.Stop()
	for {
		c.mu.Lock()
		err := c.err
		if err == nil && c.next != nil {
			c.current, c.live, c.next = c.next, c.next, nil
			c.mu.Unlock()
			return ErrResumed
		}
		c.mu.Unlock()
		if err != nil {
			return fmt.Errorf("transport: receive: %w", err)
		}
		select {
		case <-c.changed:
		case <-timer.C:
			c.end(errNotResumed)
		}
	}
}

// Send implements Conn and ResumableConn.
func (c *resumable) Send(batch []*Message, deadline time.Time) error {
	c.mu.Lock()
	s, err := c.live, c.sendable()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.Send(batch, deadline)
	if err == nil || errors.Is(err, ErrClosing) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.closing && (c.allowed || c.live != s) {
		if c.live == s {
			c.through = false
		}
		return ErrDetached // Receive says so, too: the write has dropped the socket
	}
	return err
}

// sendable says why nothing can be sent. mu is held.
func (c *resumable) sendable() error {
	switch {
	case c.err != nil:
		return fmt.Errorf("transport: send: %w", c.err)
	case c.closing:
		return fmt.Errorf("transport: send: %w", ErrClosing)
	case !c.through:
		return ErrDetached
	}
	return nil
}

// SendClose implements Conn. While detached there is nobody to tell.
func (c *resumable) SendClose(status int, deadline time.Time) error {
	c.mu.Lock()
	s := c.live
	if c.next != nil {
		s = nil
	}
	c.closing = true
	c.mu.Unlock()
	if s == nil {
		c.end(errNotResumed)
		return nil
	}
	return s.SendClose(status, deadline)
}

// CloseNow implements Conn.
func (c *resumable) CloseNow() { c.end(net.ErrClosed) }

// end drops whatever sockets there are.
func (c *resumable) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	if c.live != nil {
		c.live.CloseNow()
	}
	if c.next != nil {
		c.next.CloseNow()
	}
	signal(c.changed)
}

// AllowResume implements ResumableConn.
func (c *resumable) AllowResume(on bool) {
	c.mu.Lock()
	c.allowed = on
	lost := !on && (c.live == nil || c.next != nil)
	c.mu.Unlock()
	if lost {
		c.end(errNotResumed)
	}
}

// Resume implements ResumableConn.
func (c *resumable) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.through = c.live != nil && c.next == nil
}

// mayReplace says whether a further socket is let in.
func (c *resumable) mayReplace() (Refusal, *StatusError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return RefusedSpentID, errUnknownID()
	case c.closing || !c.allowed:
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	return 0, nil
}

// replace puts a socket in the place of whichever there was.
func (c *resumable) replace(s *socket) {
	c.mu.Lock()
	refused := c.err != nil || c.closing || !c.allowed
	superseded := c.next
	if refused {
		superseded = s // it has just been switched off
	} else {
		c.next, c.remote, c.through = s, s.remote, false
	}
	old := c.live
	c.mu.Unlock()
	if superseded != nil {
		superseded.CloseNow()
	}
	if !refused && old != nil {
		old.CloseNow() // Receive finds next in its place
	}
	signal(c.changed)
}

// A preceded is a socket whose client has sent something in POSTs before.
type preceded struct {
	*socket
	early []byte
}

func (p *preceded) Receive() ([]byte, error) {
	if early := p.early; len(early) > 0 {
		p.early = nil
		return early, nil
	}
	return p.socket.Receive()
}

// openOnRecord opens a WebSocket whose connection has a record: because its
// socket may be replaced, or because a POST began it.
func (e *Endpoint) openOnRecord(w http.ResponseWriter, r *http.Request, t *token) (Refusal, *StatusError) {
	rec, why, refused := e.acquire(r, t)
	if refused == nil {
		why, refused = e.own(r, rec)
	}
	if refused != nil {
		return why, refused
	}
	if !rec.join() {
		return RefusedSpentID, errUnknownID()
	}
	defer rec.quit()
	if !rec.attach(WebSockets) {
		return e.reattach(w, r, rec)
	}
	serve, why, refused := e.admit(r, rec, WebSockets)
	if refused != nil {
		return why, refused
	}
	s, err := e.upgrade(w, r, rec.id)
	if err != nil {
		rec.detach()
		e.leave()
		return RefusedVanished, &StatusError{Code: http.StatusInternalServerError, Text: err.Error()}
	}
	e.accepted.Add(1)
	early := rec.inbox.take()
	if e.resumes(t) {
		c := newResumable(rec, s, early)
		rec.begin(nil, c)
		go e.runOnRecord(rec, c, serve, c.finish) // until leave, which Wait waits for
		return 0, nil
	}
	rec.begin(nil, nil)
	go e.runOnRecord(rec, &preceded{s, early}, serve, s.end) // until leave, which Wait waits for
	return 0, nil
}

// runOnRecord is the reader of a WebSocket connection that has a record.
func (e *Endpoint) runOnRecord(rec *record, c Conn, serve func(Conn), end func()) {
	defer e.leave()
	defer rec.finish()
	defer end()
	serve(c)
}

// finish frees what is left of a connection when its serve has returned.
func (c *resumable) finish() {
	c.CloseNow()
	if c.current != nil {
		c.current.end()
	}
}

// reattach lets another socket take the place of a lost one.
func (e *Endpoint) reattach(w http.ResponseWriter, r *http.Request, rec *record) (Refusal, *StatusError) {
	rec.mu.Lock()
	c, kind := rec.socket, rec.kind
	rec.mu.Unlock()
	switch {
	case kind != WebSockets:
		return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
	case c == nil:
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	if why, refused := c.mayReplace(); refused != nil {
		return why, refused
	}
	if why, refused := e.refreshed(r, rec); refused != nil {
		return why, refused
	}
	s, err := e.upgrade(w, r, rec.id)
	if err != nil {
		return RefusedVanished, &StatusError{Code: http.StatusInternalServerError, Text: err.Error()}
	}
	c.replace(s)
	return 0, nil
}

// resumes reports whether the token's client and this endpoint have agreed on
// stateful reconnects.
func (e *Endpoint) resumes(t *token) bool {
	return e.opts.AllowStatefulReconnects && t.flags&flagReconnect != 0
}
