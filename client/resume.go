package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A resumption is what a session has besides, if it may go on on another
// WebSocket after the loss of one (HubProtocol.md, "Ack and Sequence"; where
// that text and SignalR's code differ, the code): here the receiving half, the
// sending one is in outbound. Both sides count the records of types 1 to 5,
// from 1 and without gaps; the numbers are not on the wire.
type resumption struct {
	// Owned by the reader.
	next    int64 // number of the next record on this socket
	waiting bool  // for the Sequence, before which nothing counts
	tries   int   // at another socket since the last Sequence
	unacked int   // bytes since the last Ack

	ack *time.Timer // sends an Ack

	// Guarded by mu.
	mu      sync.Mutex
	handled int64 // number of the last record
	due     bool  // ack is running
	mute    bool  // no Acks: the server's Sequence is still to come
}

// Acks go out this long after the first record that they are for, as in the
// JavaScript client, and sooner if that many bytes have come: servers stop at
// 100,000.
const (
	ackDelay = time.Second
	ackBytes = 16 << 10
)

func newResumption(s *session) *resumption {
	r := &resumption{next: 1}
	r.ack = time.AfterFunc(time.Hour, func() { s.acknowledge() })
	r.ack.Stop()
	return r
}

// acknowledge sends an Ack for everything so far. Between the loss of a socket
// and the server's next Sequence it waits for that, so that no server gets an
// Ack for records between the number in its Sequence and the records themselves.
func (s *session) acknowledge() {
	r := s.resume
	r.mu.Lock()
	r.due = false
	n, mute := r.handled, r.mute
	r.mu.Unlock()
	if n == 0 || mute {
		return
	}
	s.out.force(s.protocol.AppendAck(nil, n))
}

// counted says whether both sides number records of this type.
func counted(t protocol.Type) bool { return t >= protocol.Invocation && t <= protocol.CancelInvocation }

// errSequence is worded as by the JavaScript client.
var errSequence = errors.New("client: Sequence ID greater than amount of messages we've received")

// admit handles a record of size bytes unless it was handled before.
func (s *session) admit(m *protocol.Message, size int) error {
	r := s.resume
	switch {
	case m.Type == protocol.Sequence:
		if m.SequenceID > r.next {
			return errSequence
		}
		r.next, r.waiting, r.tries = m.SequenceID, false, 0
		r.mu.Lock()
		r.mute = false
		r.mu.Unlock()
		s.acknowledge() // the last Ack may be lost
		return nil
	case r.waiting:
		return nil
	case m.Type == protocol.Ack:
		s.out.acknowledge(m.SequenceID)
		return nil
	case !counted(m.Type):
		return s.handle(m)
	}
	number := r.next
	r.next++
	if number <= r.handled { // which only the reader changes
		return nil
	}
	if err := s.handle(m); err != nil {
		return err
	}
	r.mu.Lock()
	r.handled = number
	start := !r.due
	r.due = true
	r.mu.Unlock()
	if r.unacked += size; r.unacked >= ackBytes {
		r.unacked = 0
		r.ack.Stop()
		s.acknowledge()
	} else if start {
		r.unacked = size
		r.ack.Reset(ackDelay)
	}
	return nil
}

// mayResume says whether err is the loss of a socket, and not an end that
// somebody meant.
func mayResume(err error) bool {
	var closed websocket.CloseError
	var malformed *protocol.Error
	return !errors.Is(err, errServerEnded) && !errors.Is(err, errEnded) && !errors.Is(err, errSequence) &&
		!errors.As(err, &closed) && !errors.As(err, &malformed)
}

// reattach goes on with another socket after the loss of a. It returns nil if
// that cannot be.
func (s *session) reattach(a *attachment, err error) *attachment {
	if s.resume == nil || s.ended() || !mayResume(err) {
		return nil
	}
	s.silence.Stop()
	a.breakOff(fmt.Errorf("client: read: %w", err))
	<-a.written
	log := s.client.opts.Logger.With("conn", s.connectionID)
	log.Debug("socket lost", "err", a.cause)
	conn, err := s.reopen()
	if err != nil {
		log.Info("connection not resumed", "err", err)
		return nil
	}
	next := newAttachment(conn)
	s.mu.Lock()
	if s.ended() {
		s.mu.Unlock()
		conn.cut()
		return nil
	}
	s.att = next
	s.mu.Unlock()
	log.Info("connection resumed")

	r := s.resume
	s.buf = s.buf[:0] // part of a record, which comes again
	r.next, r.waiting = r.handled+1, true
	r.mu.Lock()
	r.mute = true
	r.mu.Unlock()
	s.out.rewind(s.protocol)
	s.goroutines.Go(func() { s.write(next) })
	return next
}

// reopen opens another WebSocket with the same token: at once, and a few times
// more after network errors. A server that answers otherwise has forgotten the
// connection. There is neither a negotiation nor a handshake.
func (s *session) reopen() (conn, error) {
	ctx, cancel := context.WithTimeout(s.life.ctx, resumeTimeout)
	defer cancel()
	err := errNoSequence
	for s.resume.tries < len(resumeDelays) {
		delay := resumeDelays[s.resume.tries]
		s.resume.tries++
		if delay > 0 {
			wait := time.NewTimer(delay)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return nil, ctx.Err()
			}
		}
		var w *webSocket
		if w, err = s.client.openWebSocket(ctx, s.door); err == nil {
			w.kind = w.then // no handshake
			return w, nil
		}
		var status *StatusError
		if ctx.Err() != nil || errors.As(err, &status) {
			return nil, err
		}
	}
	return nil, err
}

// resumeDelays are the times before the attempts to resume. Sockets that are
// lost again before the server's Sequence count as failed ones.
var resumeDelays = [...]time.Duration{0, time.Second, 2 * time.Second}

var errNoSequence = errors.New("client: sockets were lost before the server's Sequence came")
