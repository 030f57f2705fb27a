package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A session is one connection to the server, from the answered handshake to
// its end. It runs two goroutines, a reader and a writer, which finish waits
// for.
type session struct {
	// Fixed.
	client       *Client
	life         *life
	in           *inbox // of the life
	protocol     protocol.Protocol
	ws           *websocket.Conn
	raw          io.Closer // what ws runs on
	connectionID string
	out          *outbound
	calls        *calls
	silence      *time.Timer // ends the session when the server is silent
	stuck        *time.Timer // ends the session when a write takes too long
	done         chan struct{}
	written      chan struct{} // closed when the writer has returned
	goroutines   sync.WaitGroup
	once         sync.Once

	// Owned by the reader.
	buf     []byte // what has been read and not been handled
	message protocol.Message

	// Set before done is closed.
	ending ending
}

// An ending says why a session ends and what to do about it.
type ending struct {
	// err is what the user is told; nil for a normal end.
	err error

	// reconnect says whether the policy may be asked.
	reconnect bool

	// sayClose sends a Close record, polite closes the WebSocket with a close
	// frame. Both are of no use when the connection is broken.
	sayClose, polite bool
}

func newSession(c *Client, l *life, ws *websocket.Conn, raw io.Closer, connectionID string, rest []byte) *session {
	return &session{
		client:       c,
		life:         l,
		in:           l.in,
		protocol:     c.opts.Protocol,
		ws:           ws,
		raw:          raw,
		connectionID: connectionID,
		out:          newOutbound(),
		calls:        newCalls(),
		done:         make(chan struct{}),
		written:      make(chan struct{}),
		buf:          rest,
	}
}

// end makes the session end. The first call decides why.
func (s *session) end(e ending) {
	s.once.Do(func() {
		s.ending = e
		close(s.done)
	})
}

// start starts the reader and the writer.
func (s *session) start() {
	s.silence = time.AfterFunc(s.client.opts.ServerTimeout, func() {
		s.end(ending{err: ErrServerTimeout, reconnect: true})
	})
	s.stuck = time.AfterFunc(time.Hour, func() {
		s.end(ending{err: ErrWriteTimeout, reconnect: true})
		s.raw.Close() // the writer cannot see done
	})
	s.stuck.Stop()
	s.goroutines.Go(s.read)
	s.goroutines.Go(s.write)
}

// finish waits for the end of the session, closes the connection, within 5 s
// or as soon as hurry closes, and returns when both goroutines have.
func (s *session) finish(hurry <-chan struct{}) ending {
	<-s.done
	defer s.silence.Stop()
	s.calls.fail(s.ending.err)
	if !s.ending.polite {
		s.raw.Close()
		s.ws.CloseNow()
		s.goroutines.Wait()
		return s.ending
	}
	closed := make(chan struct{})
	var closer sync.WaitGroup
	closer.Go(func() {
		defer close(closed)
		s.closePolitely()
	})
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	case <-hurry:
	}
	s.raw.Close()
	closer.Wait()
	s.goroutines.Wait()
	return s.ending
}

// write writes what is put into out, several records at a time, and pings when
// there is nothing else.
func (s *session) write() {
	defer close(s.written)
	ping := s.protocol.AppendPing(nil)
	idle := time.NewTimer(s.client.opts.KeepAliveInterval)
	defer idle.Stop()
	defer s.stuck.Stop()
	var batch []byte
	s.out.force(ping) // servers time out only those who have pinged
	for {
		last := false
		select {
		case <-s.done:
			if !s.ending.polite {
				return
			}
			last = true
			if s.ending.sayClose {
				s.out.force(s.protocol.AppendClose(nil, "", false))
			}
		case <-s.out.wake:
		case <-idle.C:
			s.out.force(ping)
		}
		if batch = s.out.take(batch); len(batch) > 0 {
			if err := s.writeBatch(batch); err != nil {
				s.endWriter(err)
				return
			}
			idle.Reset(s.client.opts.KeepAliveInterval)
		}
		if last {
			return
		}
	}
}

// endWriter ends the session after a write error, unless the reader does: what
// the server sent before the connection broke may say why, and whether the
// client may come back.
func (s *session) endWriter(err error) {
	grace := time.NewTimer(readerGrace)
	defer grace.Stop()
	select {
	case <-s.done:
	case <-grace.C:
		s.end(ending{err: fmt.Errorf("client: write: %w", err), reconnect: true})
	}
}

func (s *session) writeBatch(batch []byte) error {
	kind := websocket.MessageText
	if s.protocol.Binary() {
		kind = websocket.MessageBinary
	}
	s.stuck.Reset(writeTimeout)
	defer s.stuck.Stop()
	// A context that ended here would end the connection; stuck does that.
	return s.ws.Write(context.Background(), kind, batch)
}

// read handles records until the session ends.
func (s *session) read() {
	err := s.readAll()
	var closed websocket.CloseError
	switch {
	case errors.Is(err, errEnded):
	case errors.As(err, &closed) && closed.Code == websocket.StatusNormalClosure:
		s.end(ending{reconnect: true})
	case errors.As(err, &closed):
		s.end(ending{err: fmt.Errorf("client: websocket closed: %w", closed), reconnect: true})
	default:
		var malformed *protocol.Error
		s.end(ending{err: fmt.Errorf("client: read: %w", err), reconnect: true, polite: errors.As(err, &malformed)})
	}
}

// errEnded stops the reader when the session has ended for another reason.
var errEnded = errors.New("client: session ended")

func (s *session) readAll() error {
	if err := s.handleAll(); err != nil {
		return err
	}
	for {
		if s.ended() {
			return errEnded
		}
		s.silence.Reset(s.client.opts.ServerTimeout)
		_, r, err := s.ws.Reader(context.Background())
		if err != nil {
			return err
		}
		if err := s.readMessage(r); err != nil {
			return err
		}
	}
}

// Sizes of the reader's buffer: what it starts with, and what it keeps while
// nothing is in it.
const (
	minReadBuffer = 4 << 10
	maxIdleBuffer = 64 << 10
)

// readMessage reads one WebSocket message. Records are normally whole in it,
// so it looks for them at its end; in a long message also each time what is
// there has doubled.
func (s *session) readMessage(r io.Reader) error {
	next := maxIdleBuffer
	for {
		if len(s.buf) == cap(s.buf) {
			s.buf = append(make([]byte, 0, max(minReadBuffer, 2*cap(s.buf))), s.buf...)
		}
		n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return err
		}
		if atEnd || len(s.buf) >= next {
			s.silence.Stop() // handling may wait, and that is not the server's silence
			if err := s.handleAll(); err != nil {
				return err
			}
			next = max(maxIdleBuffer, 2*len(s.buf))
		}
		if atEnd {
			return nil
		}
		s.silence.Reset(s.client.opts.ServerTimeout)
	}
}

// handleAll handles the whole records in buf and keeps what follows them.
func (s *session) handleAll() error {
	rest := s.buf
	for {
		body, size, err := s.protocol.Cut(rest, s.client.opts.MaximumReceiveMessageSize)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		if err := s.protocol.Parse(body, &s.message); err != nil {
			return err
		}
		if err := s.handle(&s.message); err != nil {
			return err
		}
		rest = rest[size:]
	}
	s.buf = s.buf[:copy(s.buf, rest)]
	if len(s.buf) == 0 && cap(s.buf) > maxIdleBuffer {
		s.buf = nil
	}
	s.message.Reset()
	return nil
}

// handle handles one record. Its slices are good until it returns.
func (s *session) handle(m *protocol.Message) error {
	switch m.Type {
	case protocol.Invocation:
		return s.handleInvocation(m)
	case protocol.Completion:
		s.calls.complete(m)
	case protocol.StreamItem:
		return s.handleItem(m)
	case protocol.Close:
		s.handleClose(m)
		return errEnded
	}
	return nil // pings, and what only stateful reconnect needs
}

// handleInvocation queues a copy for the handlers.
func (s *session) handleInvocation(m *protocol.Message) error {
	size := 0
	for _, a := range m.Arguments {
		size += len(a)
	}
	data := make([]byte, 0, size)
	raw := make([][]byte, len(m.Arguments))
	for i, a := range m.Arguments {
		start := len(data)
		data = append(data, a...)
		raw[i] = data[start:len(data):len(data)]
	}
	const overhead = 24 // of one argument
	e := event{
		session: s,
		target:  string(m.Target),
		id:      string(m.InvocationID),
		args:    Args{protocol: s.protocol, raw: raw},
		size:    size + len(raw)*overhead,
	}
	if !s.in.put(s.done, e) {
		return errEnded
	}
	return nil
}

// handleClose does what the JavaScript client does: only a Close that allows
// it leads to a reconnect, and only one that does not is answered.
func (s *session) handleClose(m *protocol.Message) {
	var err error
	if len(m.Error) > 0 {
		err = &CloseError{Text: string(m.Error), AllowReconnect: m.AllowReconnect}
	}
	s.end(ending{err: err, reconnect: m.AllowReconnect, sayClose: !m.AllowReconnect, polite: true})
}

func (s *session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// closePolitely lets the writer flush and shakes hands on the end.
func (s *session) closePolitely() {
	<-s.written
	s.ws.Close(websocket.StatusNormalClosure, "")
}
