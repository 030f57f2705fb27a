package client

import (
	"errors"
	"fmt"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// errEnded stops the reader when the session has ended for another reason.
var errEnded = errors.New("client: session ended")

// read handles records until the session ends.
func (s *session) read() {
	a := s.att
	err := s.handleAll() // what came with the handshake
	for {
		if err == nil {
			err = s.readAll(a)
		}
		next := s.reattach(a, err)
		if next == nil {
			break
		}
		a, err = next, nil
	}
	if cause := a.lost(); cause != nil && mayResume(err) {
		s.end(ending{err: cause, reconnect: true})
		return
	}
	s.end(endingOf(err))
}

// endingOf judges why reading ended.
func endingOf(err error) ending {
	var closed websocket.CloseError
	var malformed *protocol.Error
	switch {
	case errors.Is(err, errServerEnded):
		return ending{reconnect: true}
	case errors.As(err, &closed):
		return ending{err: fmt.Errorf("client: websocket closed: %w", closed), reconnect: true}
	}
	polite := errors.As(err, &malformed) || errors.Is(err, errSequence)
	return ending{err: fmt.Errorf("client: read: %w", err), reconnect: true, polite: polite}
}

// readAll handles what arrives on one attachment.
func (s *session) readAll(a *attachment) error {
	for {
		if s.ended() {
			return errEnded
		}
		if err := s.readChunk(a); err != nil {
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

// readChunk reads what the server sent as one. Records are normally whole in
// it, so it looks for them at its end; in a long one also each time what is
// there has doubled.
func (s *session) readChunk(a *attachment) error {
	next := maxIdleBuffer
	for {
		s.hear()
		if len(s.buf) == cap(s.buf) {
			s.buf = append(make([]byte, 0, max(minReadBuffer, 2*cap(s.buf))), s.buf...)
		}
		n, whole, err := a.conn.read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if err != nil {
			return err
		}
		if whole || len(s.buf) >= next {
			s.silence.Stop() // handling may wait, and that is not the server's silence
			if err := s.handleAll(); err != nil {
				return err
			}
			next = max(maxIdleBuffer, 2*len(s.buf))
		}
		if whole {
			return nil
		}
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
		if s.resume != nil {
			err = s.admit(&s.message, size)
		} else {
			err = s.handle(&s.message)
		}
		if err != nil {
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
	return nil // pings, and what only stateful reconnects need
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
