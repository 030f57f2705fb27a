package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// connect negotiates, opens the WebSocket and shakes hands. The session it
// returns has not been started.
func (c *Client) connect(ctx context.Context, l *life) (*session, error) {
	d, err := c.negotiate(ctx)
	if err != nil {
		return nil, err
	}
	ws, raw, err := c.dial(ctx, d)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // the limit is one of records, not of WebSocket messages
	rest, err := c.handshake(ctx, ws)
	if err != nil {
		raw.Close()
		ws.CloseNow()
		return nil, err
	}
	return newSession(c, l, ws, raw, d.connectionID, rest), nil
}

// dial opens the WebSocket. raw is what it runs on: closing that ends it at
// once, whatever the WebSocket library waits for.
func (c *Client) dial(ctx context.Context, d door) (ws *websocket.Conn, raw io.Closer, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	header, err := c.header(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	u := *d.url
	if d.token != "" {
		u.RawQuery = addQuery(u.RawQuery, "id", d.token)
	}
	tap := &upgradeTap{base: c.opts.HTTPClient.Transport}
	httpClient := *c.opts.HTTPClient
	httpClient.Transport = tap
	ws, response, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: &httpClient, HTTPHeader: header})
	switch {
	case err == nil:
		return ws, tap.conn, nil
	case response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, nil, &StatusError{Step: "connect", Status: response.StatusCode}
	}
	return nil, nil, fmt.Errorf("client: connect: %w", err)
}

// An upgradeTap is a RoundTripper that remembers the connection of the upgrade
// it let through.
type upgradeTap struct {
	base http.RoundTripper
	conn io.Closer
}

// RoundTrip implements http.RoundTripper.
func (t *upgradeTap) RoundTrip(request *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	response, err := base.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		t.conn = response.Body
	}
	return response, err
}

// handshake sends the request and reads the answer (HubProtocol.md,
// "Handshake"). rest is what followed it in the same WebSocket message.
func (c *Client) handshake(ctx context.Context, ws *websocket.Conn) (rest []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("client: handshake: %w", context.Cause(ctx))
		}
	}()
	request := protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: c.opts.Protocol.Name(), Version: 1})
	if err := ws.Write(ctx, websocket.MessageText, request); err != nil {
		return nil, fmt.Errorf("client: handshake: %w", err)
	}
	limit := c.opts.MaximumReceiveMessageSize
	var answer []byte
	for {
		_, r, err := ws.Reader(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: handshake: %w", err)
		}
		piece, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
		if err != nil {
			return nil, fmt.Errorf("client: handshake: %w", err)
		}
		if answer = append(answer, piece...); len(answer) > limit {
			return nil, fmt.Errorf("client: handshake: %w", protocol.ErrTooLarge)
		}
		text, size, err := protocol.ParseHandshakeResponse(answer)
		switch {
		case err != nil:
			return nil, fmt.Errorf("client: handshake: %w", err)
		case text != "":
			return nil, &HandshakeError{Text: text}
		case size > 0:
			return answer[size:], nil
		}
	}
}

// errHandshakeTimeout is also a context.DeadlineExceeded.
var errHandshakeTimeout = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
