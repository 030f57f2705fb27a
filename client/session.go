package client

import (
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A session is one connection as the hub sees it, from the answered handshake
// to its end, on one transport or several (see resumption). It runs two goroutines, a reader and a writer, which finish waits
// for.
type session struct {
	// Fixed.
	client       *Client
	life         *life
	in           *inbox // of the life
	protocol     protocol.Protocol
	door         door
	connectionID string
	out          *outbound
	calls        *calls
	resume       *resumption // nil without stateful reconnects
	done         chan struct{}
	goroutines   sync.WaitGroup
	once         sync.Once

	// Owned by the reader.
	buf     []byte // what has been read and not been handled
	message protocol.Message
	silence *time.Timer // breaks the attachment when the server is silent

	// Guarded by mu.
	mu  sync.Mutex
	att *attachment

	// Set before done is closed.
	ending ending
}

// An attachment is what a session runs on: an open transport.
type attachment struct {
	conn    conn
	broken  chan struct{} // closed by breakOff
	once    sync.Once
	cause   error         // set before broken is closed
	written chan struct{} // closed when its writer has returned
}

func newAttachment(c conn) *attachment {
	return &attachment{conn: c, broken: make(chan struct{}), written: make(chan struct{})}
}

// breakOff cuts the transport, which frees its reader and its writer. The
// first call decides why.
func (a *attachment) breakOff(cause error) {
	a.once.Do(func() {
		a.cause = cause
		close(a.broken)
	})
	a.conn.cut()
}

// lost returns the cause, or nil while the attachment is not broken.
func (a *attachment) lost() error {
	select {
	case <-a.broken:
		return a.cause
	default:
		return nil
	}
}

// An ending says why a session ends and what to do about it.
type ending struct {
	// err is what the user is told; nil for a normal end.
	err error

	// reconnect says whether the policy may be asked.
	reconnect bool

	// sayClose sends a Close record, polite closes the transport as its
	// protocol demands. Both are of no use when the connection is broken.
	sayClose, polite bool
}

func newSession(c *Client, l *life, conn conn, d door, rest []byte) *session {
	s := &session{
		client:       c,
		life:         l,
		in:           l.in,
		protocol:     c.opts.Protocol,
		door:         d,
		connectionID: d.connectionID,
		out:          newOutbound(),
		calls:        newCalls(),
		done:         make(chan struct{}),
		buf:          rest,
		att:          newAttachment(conn),
	}
	if d.resumable {
		s.resume = newResumption(s)
		s.out.keep, s.out.limit = true, c.opts.StatefulReconnectBufferSize
	}
	return s
}

// drop gives up a session that was not started.
func (s *session) drop() { s.att.conn.cut() }

// end makes the session end. The first call decides why.
func (s *session) end(e ending) {
	s.once.Do(func() {
		s.ending = e
		close(s.done)
	})
}

func (s *session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// attached returns what the session runs on, or ran on last.
func (s *session) attached() *attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.att
}

// lose breaks the attachment off, and with it the session unless that may go
// on on another one.
func (s *session) lose(a *attachment, cause error) {
	if s.resume == nil {
		s.end(ending{err: cause, reconnect: true})
	}
	a.breakOff(cause)
}

// start starts the reader and the writer.
func (s *session) start() {
	s.silence = time.AfterFunc(s.client.opts.ServerTimeout, func() { s.lose(s.attached(), ErrServerTimeout) })
	s.hear()
	s.goroutines.Go(s.read)
	s.goroutines.Go(func() { s.write(s.att) })
}

// hear lets the server's silence begin anew.
func (s *session) hear() {
	if s.door.transport.quiet() {
		s.silence.Stop()
		return
	}
	s.silence.Reset(s.client.opts.ServerTimeout)
}

func (s *session) stopTimers() {
	s.silence.Stop()
	if s.resume != nil {
		s.resume.ack.Stop()
	}
}

// finish waits for the end of the session, closes the connection, within 5 s
// or as soon as hurry closes, and returns when both goroutines have.
func (s *session) finish(hurry <-chan struct{}) ending {
	<-s.done
	defer s.stopTimers()
	s.calls.fail(s.ending.err)
	a := s.attached()
	if !s.ending.polite {
		a.conn.cut()
		s.goroutines.Wait()
		return s.ending
	}
	closed := make(chan struct{})
	var closer sync.WaitGroup
	closer.Go(func() {
		defer close(closed)
		<-a.written // what was sent before
		a.conn.close()
	})
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	case <-hurry:
	}
	a.conn.cut()
	closer.Wait()
	s.goroutines.Wait()
	return s.ending
}
