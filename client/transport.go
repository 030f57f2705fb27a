package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A Transport is a way to carry records between client and server, named as
// negotiate names it.
type Transport string

// The transports.
const (
	WebSockets       Transport = "WebSockets"
	ServerSentEvents Transport = "ServerSentEvents" // text protocols only
	LongPolling      Transport = "LongPolling"
)

// carries says whether the transport can carry a protocol.
func (t Transport) carries(p protocol.Protocol) bool {
	return t != ServerSentEvents || !p.Binary()
}

// quiet says whether the transport keeps itself alive: then neither side
// pings, and silence is no sign of a loss (TransportProtocols.md, "Long Polling").
func (t Transport) quiet() bool { return t == LongPolling }

// A conn is an open transport: a stream of bytes in each direction. One
// goroutine reads and one writes; close and cut may be called by others.
type conn interface {
	// read reads some bytes. whole says that the server's chunk ends behind
	// them, as its records do normally. The error is errServerEnded if the
	// server ended the connection without saying that anything was wrong.
	read(p []byte) (n int, whole bool, err error)

	// write writes whole records, in order. The handshake is the first.
	write(records []byte) error

	// close ends the connection politely, which may take time: cut ends it.
	close()

	// cut ends the connection at once. Whoever reads, writes or closes is
	// freed.
	cut()
}

// errServerEnded is the normal end of a connection by the server.
var errServerEnded = errors.New("client: the server ended the connection")

// connect negotiates, opens a transport and shakes hands. The session it
// returns has not been started. As in the JavaScript client, a transport that
// does not open makes way for the next one, with a new negotiation because the
// token may be used up; a handshake that fails does not.
func (c *Client) connect(ctx context.Context, l *life) (*session, error) {
	if c.opts.SkipNegotiation {
		d := door{url: c.base, transport: WebSockets}
		conn, err := c.open(ctx, d)
		if err != nil {
			return nil, err
		}
		return c.shake(ctx, l, conn, d)
	}
	d, offered, err := c.negotiate(ctx, door{url: c.base})
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, t := range c.opts.Transports {
		if !offers(offered, t, c.opts.Protocol) {
			continue
		}
		if len(failures) > 0 {
			if d, offered, err = c.negotiate(ctx, d); err != nil {
				failures = append(failures, err)
				break
			}
		}
		d.transport, d.resumable = t, d.resumable && t == WebSockets
		conn, err := c.open(ctx, d)
		if err == nil {
			return c.shake(ctx, l, conn, d)
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
		c.opts.Logger.Warn("transport does not open", "transport", string(t), "err", err)
	}
	switch len(failures) {
	case 0:
		return nil, ErrNoTransport
	case 1:
		return nil, failures[0]
	}
	return nil, errors.Join(failures...)
}

// offers says whether a server's transports hold one that can carry the
// protocol.
func offers(offered []availableTransport, t Transport, p protocol.Protocol) bool {
	format := "Text"
	if p.Binary() {
		format = "Binary"
	}
	return t.carries(p) && slices.ContainsFunc(offered, func(a availableTransport) bool {
		return a.Transport == string(t) && slices.Contains(a.TransferFormats, format)
	})
}

// open opens the transport of d.
func (c *Client) open(ctx context.Context, d door) (conn, error) {
	switch d.transport {
	case ServerSentEvents:
		return c.openEvents(ctx, d)
	case LongPolling:
		return c.openPolling(ctx, d)
	}
	w, err := c.openWebSocket(ctx, d)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// shake makes a session of a connection, or ends that.
func (c *Client) shake(ctx context.Context, l *life, conn conn, d door) (*session, error) {
	version := 1
	if d.resumable {
		version = 2
	}
	rest, err := c.handshake(ctx, conn, version)
	if err != nil {
		conn.cut()
		return nil, err
	}
	return newSession(c, l, conn, d, rest), nil
}

// handshake sends the request and reads the answer (HubProtocol.md,
// "Handshake"). rest is what was read behind it.
func (c *Client) handshake(ctx context.Context, conn conn, version int) (rest []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, conn.cut)()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("client: handshake: %w", context.Cause(ctx))
		}
	}()
	request := protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: c.opts.Protocol.Name(), Version: version})
	if err := conn.write(request); err != nil {
		return nil, fmt.Errorf("client: handshake: %w", err)
	}
	limit := c.opts.MaximumReceiveMessageSize
	var answer []byte
	for {
		answer = slices.Grow(answer, minReadBuffer)
		n, _, err := conn.read(answer[len(answer):cap(answer)])
		if err != nil {
			return nil, fmt.Errorf("client: handshake: %w", err)
		}
		answer = answer[:len(answer)+n]
		text, size, err := protocol.ParseHandshakeResponse(answer)
		switch {
		case err != nil:
			return nil, fmt.Errorf("client: handshake: %w", err)
		case text != "":
			return nil, &HandshakeError{Text: text}
		case size > 0:
			return answer[size:], nil
		case len(answer) > limit:
			return nil, fmt.Errorf("client: handshake: %w", protocol.ErrTooLarge)
		}
	}
}

// errHandshakeTimeout is also a context.DeadlineExceeded.
var errHandshakeTimeout = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
