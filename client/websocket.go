package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/coder/websocket"
)

// A webSocket is the conn over WebSockets.
type webSocket struct {
	ws  *websocket.Conn
	raw io.Closer // what ws runs on: closing that frees everybody at once

	// Owned by the reader.
	message io.Reader // being read; nil between messages

	// Owned by the writer.
	kind websocket.MessageType // of what is written next
	then websocket.MessageType // of what follows that
}

// openWebSocket opens a WebSocket.
func (c *Client) openWebSocket(ctx context.Context, d door) (*webSocket, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	header, err := c.header(ctx, d)
	if err != nil {
		return nil, err
	}
	tap := &upgradeTap{base: c.opts.HTTPClient.Transport}
	httpClient := *c.opts.HTTPClient
	httpClient.Transport = tap
	ws, response, err := websocket.Dial(ctx, d.address().String(), &websocket.DialOptions{HTTPClient: &httpClient, HTTPHeader: header})
	switch {
	case err == nil:
		ws.SetReadLimit(-1) // the limit is one of records, not of WebSocket messages
		w := &webSocket{ws: ws, raw: tap.conn, kind: websocket.MessageText, then: websocket.MessageText}
		if c.opts.Protocol.Binary() {
			w.then = websocket.MessageBinary
		}
		return w, nil
	case response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, &StatusError{Step: "connect", Status: response.StatusCode}
	}
	return nil, fmt.Errorf("client: connect: %w", err)
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

func (w *webSocket) read(p []byte) (n int, whole bool, err error) {
	if w.message == nil {
		if _, w.message, err = w.ws.Reader(context.Background()); err != nil {
			return 0, false, closedNormally(err)
		}
	}
	n, err = w.message.Read(p)
	if errors.Is(err, io.EOF) {
		w.message = nil
		return n, true, nil
	}
	if err != nil {
		return n, false, closedNormally(err)
	}
	return n, false, nil
}

// closedNormally turns a close frame with status 1000 into errServerEnded.
func closedNormally(err error) error {
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return errServerEnded
	}
	return err
}

// write has no deadline: a context that ended would end the connection, and
// the session cuts it by itself. The handshake is text, whatever the protocol,
// as the JavaScript client sends it.
func (w *webSocket) write(records []byte) error {
	kind := w.kind
	w.kind = w.then
	return w.ws.Write(context.Background(), kind, records)
}

func (w *webSocket) close() { w.ws.Close(websocket.StatusNormalClosure, "") }

func (w *webSocket) cut() {
	w.raw.Close()
	w.ws.CloseNow()
}
