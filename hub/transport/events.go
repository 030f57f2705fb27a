package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// errLeft is what Receive returns when the request of an event stream is over.
var errLeft = errors.New("transport: the client left the event stream")

// errEnded is what Send returns when the handler has returned.
var errEnded = errors.New("transport: the event stream is over")

// An eventStream is a Conn on Server-Sent Events: what it sends is the body of
// one answer, what it receives comes in POSTs.
type eventStream struct {
	posted

	// fixed
	w           http.ResponseWriter
	control     *http.ResponseController
	multiplexed bool // HTTP/2

	// turn is the right to write, and the one lock that is held across a
	// write: nobody else ever waits for it.
	turn     sync.Mutex
	err      error     // guarded by turn: why nothing more is written
	deadline time.Time // guarded by turn: of writes

	mu      sync.Mutex
	writing bool // guarded by mu
}

var _ Conn = (*eventStream)(nil)

// stream opens an event stream and stays until the connection is over.
func (e *Endpoint) stream(w http.ResponseWriter, r *http.Request, rec *record) (Refusal, *StatusError) {
	if !rec.join() {
		return RefusedSpentID, errUnknownID()
	}
	joined := true
	defer func() {
		if joined {
			rec.quit()
		}
	}()
	if !rec.attach(ServerSentEvents) {
		if _, kind := rec.state(); kind != ServerSentEvents {
			return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
		}
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	serve, why, refused := e.admit(r, rec, ServerSentEvents)
	if refused != nil {
		return why, refused
	}
	begun := false
	defer func() {
		if !begun {
			rec.detach()
		}
		e.leave()
	}()
	s := &eventStream{
		posted: newPosted(rec, r),
		w:      w, control: http.NewResponseController(w), multiplexed: r.ProtoMajor > 1,
	}
	if err := s.open(e.opts.WebSocketCloseTimeout); err != nil {
		return RefusedVanished, &StatusError{Code: http.StatusInternalServerError, Text: err.Error()}
	}
	begun = true
	rec.begin(nil, nil)
	e.accepted.Add(1)
	stop := context.AfterFunc(r.Context(), func() { rec.inbox.end(errLeft) })
	rec.quit()
	joined = false
	defer rec.finish()
	defer s.finish()
	defer stop()
	serve(s)
	return 0, nil
}

// open sends the head of the answer, and a comment: some browsers take a
// stream for open only when its first byte has come.
func (s *eventStream) open(timeout time.Duration) error {
	_ = s.control.SetReadDeadline(time.Time{}) // of the HTTP server, which would end the request
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache,no-store")
	h.Set("Pragma", "no-cache")
	h.Set("Content-Encoding", "identity")
	h.Set("X-Accel-Buffering", "no")
	if !s.multiplexed {
		h.Set("Connection", "close") // its deadlines are nothing for a further request
	}
	if err := s.extend(time.Now().Add(timeout)); err != nil {
		return err
	}
	s.w.WriteHeader(http.StatusOK)
	if _, err := io.WriteString(s.w, ":\r\n"); err != nil {
		return err
	}
	return s.flush()
}

// finish ends the right to write, as the handler is about to return, and gives
// the end of the response a little time to go out.
func (s *eventStream) finish() {
	s.CloseNow()
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.err == nil || s.err == ErrClosing {
		_ = s.control.SetWriteDeadline(time.Now().Add(lingerTime))
	}
	s.err = cmp.Or(s.err, errEnded)
}

func (s *eventStream) Kind() Kind   { return ServerSentEvents }
func (s *eventStream) Binary() bool { return false }

// Send implements Conn: one event for each message, one flush for all of them.
func (s *eventStream) Send(batch []*Message, deadline time.Time) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.send(batch, deadline); err != nil {
		return fmt.Errorf("transport: send: %w", err)
	}
	return nil
}

// send writes a batch. After an error part of an event may be out, so the
// connection is over. The caller has the turn.
func (s *eventStream) send(batch []*Message, deadline time.Time) error {
	if s.err != nil {
		return s.err
	}
	if !s.begin() {
		return net.ErrClosed
	}
	err := s.extend(deadline)
	for i := 0; err == nil && i < len(batch); i++ {
		if !batch[i].Control() {
			err = writeEvent(s.w, batch[i].Payload(), s.multiplexed)
		}
	}
	if err == nil {
		err = s.flush()
	}
	s.mu.Lock()
	s.writing = false
	s.mu.Unlock()
	if err != nil {
		s.err = err
		s.rec.inbox.drop(err)
	}
	return err
}

// begin says that a write is about to block, so that CloseNow can free it.
func (s *eventStream) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = !s.rec.inbox.ended()
	return s.writing
}

// extend gives a write between half of the time that is left until deadline and
// all of it: to set a deadline costs more than to look at the clock. On HTTP/2
// a deadline is that of the stream, written to or not, and is taken off again.
func (s *eventStream) extend(deadline time.Time) error {
	now := time.Now()
	want, left := deadline.Sub(now), s.deadline.Sub(now)
	if want <= 0 {
		return os.ErrDeadlineExceeded
	}
	if !s.multiplexed && left >= want/2 && left <= want {
		return nil
	}
	s.mu.Lock() // or it would take the place of CloseNow's
	defer s.mu.Unlock()
	if s.writing && s.rec.inbox.ended() {
		return net.ErrClosed
	}
	s.deadline = deadline
	_ = s.control.SetWriteDeadline(deadline) // a ResponseWriter without deadlines has none
	return nil
}

func (s *eventStream) flush() error {
	err := s.control.Flush()
	if err == nil && s.multiplexed {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	return err
}

// SendClose implements Conn: the response ends when serve returns, which it
// does because Receive returns io.EOF.
func (s *eventStream) SendClose(int, time.Time) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.err = cmp.Or(s.err, ErrClosing)
	s.rec.inbox.end(io.EOF)
	return nil
}

// CloseNow implements Conn. A write under way is cut.
func (s *eventStream) CloseNow() {
	s.rec.inbox.drop(net.ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// writeEvent writes bytes as one event. Line feeds, of which JSON has none,
// begin further lines of data (the HTML standard, "Interpreting an event
// stream").
func writeEvent(w io.Writer, payload []byte, multiplexed bool) error {
	for more := len(payload) > 0; more; {
		line := payload
		i := bytes.IndexByte(payload, '\n')
		if more = i >= 0; more {
			line, payload = payload[:i], payload[i+1:]
			line = bytes.TrimSuffix(line, []byte{'\r'})
		}
		if _, err := io.WriteString(w, "data: "); err != nil {
			return err
		}
		if err := writePayload(w, line, multiplexed); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\r\n"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\r\n")
	return err
}

// canFlush reports whether bytes can be sent while the handler runs.
func canFlush(w http.ResponseWriter) bool {
	return implements[interface{ FlushError() error }](w) || implements[http.Flusher](w)
}
