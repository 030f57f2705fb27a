package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// Sizes in bytes.
const (
	// pieceSize bounds what one Receive returns, and what a client can make
	// us hold by sending part of a frame.
	pieceSize = 4 << 10

	// smallBatch and largeBatch are the buffers in which messages are put
	// together. A slow receiver holds one of them while it is written to.
	smallBatch = 4 << 10
	largeBatch = 16 << 10
)

// statusProtocolError is the status for a peer that breaks RFC 6455.
const statusProtocolError = 1002

// ErrClosing is what Send returns after a close frame.
var ErrClosing = errors.New("transport: close frame has been sent")

// A socket is a Conn on a WebSocket.
type socket struct {
	// fixed
	endpoint *Endpoint
	id       string
	remote   string

	// owned by the reader
	parser  *parser   // nil while nothing is to be read
	message io.Reader // the message under way; nil between messages
	piece   *[pieceSize]byte

	wire wire
}

var _ Conn = (*socket)(nil)

// upgrade turns the request into a WebSocket.
func (e *Endpoint) upgrade(w http.ResponseWriter, r *http.Request, id string) (*socket, error) {
	s := &socket{endpoint: e, id: id, remote: r.RemoteAddr}
	p, err := accept(w, r, func() (*wire, error) { return &s.wire, s.wire.hijack(w, e) })
	if err != nil {
		if s.wire.Conn != nil {
			s.wire.drop()
		}
		return nil, err
	}
	e.putParser(p)
	return s, nil
}

func (s *socket) ID() string         { return s.id }
func (s *socket) Kind() Kind         { return WebSockets }
func (s *socket) Binary() bool       { return true }
func (s *socket) RemoteAddr() string { return s.remote }
func (s *socket) Age() time.Duration { return time.Since(s.wire.start) }
func (s *socket) CloseNow()          { s.wire.drop() }

func (s *socket) LastReceived() time.Duration { return time.Duration(s.wire.last.Load()) }

// Receive implements Conn. It holds a buffer only while a message is under
// way, so that idle connections have none.
func (s *socket) Receive() ([]byte, error) {
	for {
		if s.message == nil {
			s.putPiece()
			if err := s.next(); err != nil {
				return nil, s.readFailed(err)
			}
		}
		if s.piece == nil {
			s.piece = s.endpoint.pieces.Get().(*[pieceSize]byte)
		}
		n, err := s.message.Read(s.piece[:])
		switch {
		case err == io.EOF: // of the message
			s.message = nil
		case err != nil && !errors.Is(err, errIdle):
			s.putPiece() // what is in it is still masked
			return nil, s.readFailed(err)
		case n > 0:
			return s.piece[:n], nil
		}
	}
}

// next waits for a message.
func (s *socket) next() error {
	for s.message == nil {
		// At the end of the stream the library calls half a message whole: its
		// parser must not serve anybody else.
		if s.parser != nil && s.wire.failed == nil && s.parser.empty() {
			s.endpoint.putParser(s.parser)
			s.parser = nil
		}
		if s.parser == nil {
			if err := s.wire.await(); err != nil {
				return err
			}
			p, err := s.endpoint.takeParser(&s.wire)
			if err != nil {
				return err
			}
			s.parser = p
		}
		message, err := s.parser.message()
		if err != nil && !errors.Is(err, errIdle) {
			return err
		}
		s.message = message
	}
	return nil
}

// readFailed says why nothing more is received. A peer that broke the rules of
// the protocol is told so where the library has not done it.
func (s *socket) readFailed(err error) error {
	w := &s.wire
	broken := w.broken.Load()
	switch {
	case websocket.CloseStatus(err) != -1:
		return io.EOF
	case broken != nil && (errors.Is(err, net.ErrClosed) || errors.Is(w.failed, net.ErrClosed)):
		// Both sides tell of the same end, whoever is heard first.
		return fmt.Errorf("transport: receive: the connection was dropped: %w", *broken)
	case errors.Is(w.failed, io.EOF): // the end of the stream, but no close frame
		return fmt.Errorf("transport: receive: %w", io.ErrUnexpectedEOF)
	case w.failed != nil:
		return fmt.Errorf("transport: receive: %w", w.failed)
	case errors.Is(err, net.ErrClosed):
		return fmt.Errorf("transport: receive: %w", err)
	}
	if w.writeStatus(statusProtocolError, time.Now().Add(w.grace)) == nil {
		piece := s.endpoint.pieces.Get().(*[pieceSize]byte)
		w.linger(piece[:])
		s.endpoint.pieces.Put(piece)
	}
	return fmt.Errorf("transport: receive: %w", err)
}

func (s *socket) putPiece() {
	if s.piece != nil {
		s.endpoint.pieces.Put(s.piece)
		s.piece = nil
	}
}

// Send implements Conn. One message is one write, several are put together in
// as few as their buffer allows; each write is whole frames, because pongs may
// come in between, and because TLS splits anything else.
func (s *socket) Send(batch []*Message, deadline time.Time) error {
	s.wire.mu.Lock()
	defer s.wire.unlock()
	var err error
	switch total := totalSize(batch); {
	case len(batch) == 1:
		err = s.write(batch[0].Frame(), deadline)
	case total <= smallBatch:
		buf := s.endpoint.small.Get().(*[smallBatch]byte)
		err = s.writeBatch(batch, buf[:0], deadline)
		s.endpoint.small.Put(buf)
	default:
		buf := s.endpoint.batches.Get().(*[largeBatch]byte)
		err = s.writeBatch(batch, buf[:0], deadline)
		s.endpoint.batches.Put(buf)
	}
	if err != nil {
		return fmt.Errorf("transport: send: %w", err)
	}
	return nil
}

func totalSize(batch []*Message) (n int) {
	for _, m := range batch {
		n += m.Size()
	}
	return n
}

// writeBatch copies frames into buf and writes it whenever it is full. Large
// ones are written from where they are.
func (s *socket) writeBatch(batch []*Message, buf []byte, deadline time.Time) error {
	for _, m := range batch {
		frame := m.Frame()
		alone := len(frame) > largeBatch/2
		if len(buf) > 0 && (alone || len(buf)+len(frame) > cap(buf)) {
			if err := s.write(buf, deadline); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if !alone {
			buf = append(buf, frame...)
			continue
		}
		if err := s.write(frame, deadline); err != nil {
			return err
		}
	}
	if len(buf) == 0 {
		return nil
	}
	return s.write(buf, deadline)
}

// write writes whole frames. The caller holds the wire's mu.
func (s *socket) write(frames []byte, deadline time.Time) error {
	if s.wire.shut.Load() {
		return ErrClosing
	}
	return s.wire.write(frames, deadline)
}

// SendClose implements Conn. Statuses that may not stand in a frame (RFC 6455
// section 7.4) are sent as 1011.
func (s *socket) SendClose(status int, deadline time.Time) error {
	if !mayBeSent(status) {
		status = StatusInternalError
	}
	err := s.wire.writeStatus(status, deadline)
	if err == nil {
		err = s.wire.SetReadDeadline(time.Now().Add(s.wire.grace))
	}
	if err != nil {
		return fmt.Errorf("transport: send close: %w", err)
	}
	return nil
}

func mayBeSent(status int) bool {
	switch {
	case status == 1004 || status == 1005 || status == 1006:
		return false
	default:
		return status >= 1000 && status <= 1014 || status >= 3000 && status <= 4999
	}
}

// end frees what is left of a connection when its serve has returned.
func (s *socket) end() {
	s.putPiece()
	s.wire.drop()
}
