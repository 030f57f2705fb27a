package hub

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// ServeConn serves one connection until it is over, and closes it. The calling
// goroutine is the connection's reader. ctx gives the connection its values;
// its end is not the connection's. id may be nil: nobody in particular.
func (h *Hub) ServeConn(ctx context.Context, t transport.Conn, id *Identity) {
	defer t.CloseNow()
	h.mu.Lock()
	if h.state != running {
		h.mu.Unlock()
		return
	}
	h.serving.Add(1)
	h.handshaking[t] = struct{}{}
	h.mu.Unlock()
	defer h.serving.Done()

	index, version, rest, err := h.handshake(t)
	h.mu.Lock()
	delete(h.handshaking, t)
	h.mu.Unlock()
	if err != nil {
		h.stats.countEnd(ErrHandshake)
		h.opts.Logger.Debug("handshake failed", slog.String("conn", t.ID()), slog.Any("err", err))
		return
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	c := h.newConn(ctx, t, id, index)
	c.resume = h.newResumption(t, version)
	h.stats.byProtocol[index].Add(1)
	defer h.stats.byProtocol[index].Add(-1)
	writer := c.hello()
	// From here on others may find the connection, and end it.
	registered := h.registry.add(c)
	if !registered {
		c.registered = false // before the writer, which may end the connection
	}
	if writer { // a client that has read the answer is known to everybody here
		go c.write()
	}
	if !registered {
		c.end(ErrShutdown)
		c.running.Done() // no connect step
		c.running.Wait()
		return
	}
	h.stats.opened.Add(1)
	h.opts.Logger.Debug("connected", slog.String("conn", c.id), slog.String("user", c.userID()))
	go c.connect()
	err = c.read(rest)
	c.end(failure(err))
	c.transport.CloseNow()
	c.abandon()
	c.running.Wait()
	h.registry.forget(c)
	h.logEnd(c)
}

// handshake reads the request and answers a refusal; the good answer is the
// connection's first message. rest is what followed the request.
func (h *Hub) handshake(t transport.Conn) (index, version int, rest []byte, err error) {
	timeout := h.opts.HandshakeTimeout - t.Age()
	expired := make(chan struct{})
	timer := time.AfterFunc(timeout, func() {
		defer close(expired)
		h.sayNo(t, handshakeCanceled)
		t.CloseNow()
	})
	inTime := sync.OnceValue(func() bool {
		if timer.Stop() {
			return true
		}
		<-expired
		return false
	})
	defer inTime()
	refuse := func(text string) { // unless the timer has
		if inTime() {
			h.turnAway(t, text)
		}
	}
	var buf []byte
	for {
		piece, err := t.Receive()
		if err != nil {
			return 0, 0, nil, err
		}
		buf = append(buf, piece...)
		request, size, err := protocol.ParseHandshakeRequest(buf, h.opts.MaximumReceiveMessageSize)
		if err != nil {
			text := unreadableHandshake
			if errors.Is(err, protocol.ErrTooLarge) {
				text = handshakeCanceled
			} else if h.opts.EnableDetailedErrors {
				text += " InvalidDataException: " + errorDetail(err)
			}
			refuse(text)
			return 0, 0, nil, err
		}
		if size == 0 {
			continue
		}
		index, text := h.accept(t, request)
		if text != "" {
			refuse(text)
			return 0, 0, nil, errors.New(text)
		}
		return index, request.Version, buf[size:], nil
	}
}

// errorDetail is what the official server would say about a protocol error.
func errorDetail(err error) string {
	var broken *protocol.Error
	if errors.As(err, &broken) {
		return broken.Detail
	}
	return err.Error()
}

// Error texts of the handshake (the official server's).
const (
	handshakeCanceled   = "Handshake was canceled."
	unreadableHandshake = "An unexpected error occurred during connection handshake."
	maxProtocolVersion  = 2
)

// supportsVersion asks the protocol itself where it has an opinion.
func supportsVersion(p protocol.Protocol, version int) bool {
	if v, ok := p.(interface{ IsVersionSupported(version int) bool }); ok {
		return v.IsVersionSupported(version)
	}
	return version <= maxProtocolVersion
}

// accept checks a request and returns the index of its protocol, or the text
// of the refusal.
func (h *Hub) accept(t transport.Conn, request protocol.HandshakeRequest) (index int, refusal string) {
	index, p := h.protocolFor(request.Protocol)
	switch {
	case p == nil:
		return 0, protocol.UnsupportedProtocolText(request.Protocol)
	case !supportsVersion(p, request.Version):
		return 0, protocol.UnsupportedVersionText(request.Protocol, request.Version)
	case p.Binary() && !t.Binary():
		return 0, protocol.UnsupportedTransferText(p.Name())
	}
	return index, ""
}

// sayNo answers a handshake with an error, always as text, and ends the
// transport politely.
func (h *Hub) sayNo(t transport.Conn, text string) {
	deadline := time.Now().Add(h.opts.CloseTimeout)
	m := transport.NewMessage(protocol.AppendHandshakeResponse(nil, text), false)
	if t.Send([]*transport.Message{m}, deadline) == nil {
		t.SendClose(transport.StatusNormal, deadline)
	}
}

// turnAway says no and waits, within bounds, for the peer to have read it.
func (h *Hub) turnAway(t transport.Conn, text string) {
	h.sayNo(t, text)
	timer := time.AfterFunc(h.opts.CloseTimeout, t.CloseNow)
	defer timer.Stop()
	for {
		if _, err := t.Receive(); err != nil {
			return
		}
	}
}

// hello queues the good handshake answer, ahead of everything else. The caller
// starts the writer.
func (c *conn) hello() (writer bool) {
	body := protocol.AppendHandshakeResponse(transport.BeginMessage(4), "")
	m := c.hub.newMessage(body, c.protocol.Binary())
	writer = c.reply(m)
	m.Release(1)
	return writer
}

// touch restarts the client's timeout clock.
func (c *conn) touch() { c.lastRecord.Store(int64(c.transport.Age())) }

// read is the reader: it cuts the client's stream into records and handles
// them until the stream ends. rest came with the handshake.
func (c *conn) read(rest []byte) error {
	var r records
	defer r.release(c.hub)
	if err := c.feed(&r, rest); err != nil {
		c.end(failure(err))
	}
	for {
		piece, err := c.transport.Receive()
		if err != nil {
			if c.resume != nil && c.replaced(&r, err) {
				continue
			}
			if err == io.EOF && len(r.partial) > 0 {
				return &protocol.Error{Reason: protocol.ReasonFraming, Detail: "Connection terminated while reading a message."}
			}
			if err == io.EOF && c.closing.Load() == 0 {
				c.finishCalls()
			}
			return err
		}
		if c.closing.Load() != 0 {
			continue // nothing counts any more; wait for the peer's end
		}
		if err := c.feed(&r, piece); err != nil {
			c.end(failure(err))
		}
	}
}

// replaced deals with the loss of a socket and with another in its place.
func (c *conn) replaced(r *records, err error) bool {
	switch {
	case errors.Is(err, transport.ErrDetached):
		c.detach()
	case errors.Is(err, transport.ErrResumed):
		r.partial = nil // the rest of it went down with the socket
		c.reattach()
	default:
		return false
	}
	return true
}

// records is the reader's state between two pieces.
type records struct {
	partial []byte      // the beginning of a record
	in      *invocation // room for the next record
}

func (r *records) release(h *Hub) {
	if r.in != nil {
		h.recycle(r.in)
		r.in = nil
	}
}

// feed handles the whole records in piece and keeps what is left.
func (c *conn) feed(r *records, piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	b := piece
	if len(r.partial) > 0 {
		r.partial = append(r.partial, piece...)
		b = r.partial
	}
	for len(b) > 0 {
		body, size, err := c.protocol.Cut(b, c.hub.opts.MaximumReceiveMessageSize)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		b = b[size:]
		if err := c.record(r, body); err != nil {
			return err
		}
		c.touch()
		if c.closing.Load() != 0 {
			return nil
		}
	}
	switch {
	case len(b) == 0:
		r.partial = nil
	case len(r.partial) > 0:
		r.partial = r.partial[:copy(r.partial, b)]
	default:
		r.partial = append([]byte(nil), b...)
	}
	r.release(c.hub)
	return nil
}

// record handles one record. Calls are queued; everything else is handled here
// and now.
func (c *conn) record(r *records, body []byte) error {
	if r.in == nil {
		r.in = c.hub.invocations.Get().(*invocation)
	}
	in := r.in
	in.record = append(in.record[:0], body...)
	if err := c.protocol.Parse(in.record, &in.message); err != nil {
		return err
	}
	c.hub.stats.records.Add(1)
	if c.resume != nil && counts(in.message.Type) && c.seen(len(body)) {
		return nil
	}
	switch in.message.Type {
	case protocol.Invocation, protocol.StreamInvocation:
		r.in = nil
		c.dispatch(in)
	case protocol.CancelInvocation:
		c.cancelCall(in.message.InvocationID)
	case protocol.Ping:
		c.pinged.Store(true)
	case protocol.Close:
		c.finishCalls()
		c.end(ErrClosedByClient)
	case protocol.StreamItem:
		if !c.upload(&in.message) {
			c.hub.stats.strays.Add(1)
		}
	case protocol.Completion:
		return c.completion(&in.message)
	case protocol.Ack:
		if c.resume != nil {
			c.acknowledge(in.message.SequenceID)
		}
	case protocol.Sequence:
		if c.resume != nil {
			return c.sequence(in.message.SequenceID)
		}
	}
	return nil
}

// completion ends an upload or answers a question. One that does neither is
// late, or nobody asked.
func (c *conn) completion(m *protocol.Message) error {
	if c.endUpload(m) {
		return nil
	}
	known, err := c.answer(m)
	if !known && err == nil {
		c.hub.stats.strays.Add(1)
	}
	return err
}

// failure is the reason behind an error of the reader or writer.
func failure(err error) error {
	var broken *protocol.Error
	var reason *ended
	switch {
	case errors.As(err, &reason):
		return err
	case errors.Is(err, protocol.ErrTooLarge):
		return ErrMessageTooBig.because(err)
	case errors.As(err, &broken):
		return ErrProtocol.because(err)
	case err == nil || errors.Is(err, io.EOF):
		return ErrClosedByClient
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlowConsumer.because(err)
	}
	return ErrPeerGone.because(err)
}

// logEnd writes the one line of a connection's life.
func (h *Hub) logEnd(c *conn) {
	cause := context.Cause(c.ctx)
	d := disconnectOf(cause)
	level := slog.LevelInfo
	if d == ErrMessageTooBig || d == ErrProtocol || d == ErrConnectFailed || d == ErrUnencodable {
		level = slog.LevelWarn
	}
	h.opts.Logger.Log(context.Background(), level, "disconnected",
		slog.String("conn", c.id), slog.String("user", c.userID()), slog.String("reason", d.Reason()),
		slog.Duration("duration", c.transport.Age().Round(time.Millisecond)), slog.Any("err", cause))
}
