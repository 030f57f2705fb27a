package client

import (
	"errors"
	"net/http"
	"strconv"
)

// Causes that callers branch on with errors.Is.
var (
	// ErrNotConnected: the call was made while there was no connection.
	ErrNotConnected = errors.New("client: not connected")

	// ErrConnectionLost: the connection ended before the answer to a call
	// came. The cause, if there is one, is wrapped beside it.
	ErrConnectionLost = errors.New("client: connection lost")

	// ErrStopped: Stop was called. Calls that it interrupted fail with an
	// error that is ErrConnectionLost too.
	ErrStopped = errors.New("client: stopped")

	// ErrStarted: Start was called on a client that was not disconnected.
	ErrStarted = errors.New("client: already started")

	// ErrServerTimeout: nothing arrived for Options.ServerTimeout.
	ErrServerTimeout = errors.New("client: server timeout elapsed without receiving a message from the server")

	// ErrWriteTimeout: the server took nothing for 10 s.
	ErrWriteTimeout = errors.New("client: write timeout")

	// ErrStreamStalled: the buffer of a stream was full for 10 s.
	ErrStreamStalled = errors.New("client: stream stalled: its buffer was full for too long")

	// ErrNoTransport: the server offers no transport of Options.Transports
	// that could carry the protocol.
	ErrNoTransport = errors.New("client: server offers no usable transport")

	// ErrTooManyRedirects: negotiate was redirected more than 100 times.
	ErrTooManyRedirects = errors.New("client: negotiate redirection limit exceeded")

	// ErrReconnectFailed: the reconnect policy gave up. The error of the last
	// attempt is wrapped beside it.
	ErrReconnectFailed = errors.New("client: reconnect failed")
)

// A HubError is what a hub method answered instead of a result.
type HubError struct {
	// Target is the method as the caller spelled it.
	Target string

	// Text is the server's text, such as "An unexpected error occurred
	// invoking 'Send' on the server. HubException: room is closed".
	Text string
}

// Error returns the server's text behind the target.
func (e *HubError) Error() string { return "client: " + e.Target + ": " + e.Text }

// A CloseError is a Close record of the server that carried an error.
type CloseError struct {
	Text           string
	AllowReconnect bool
}

// Error returns the text as the official clients word it.
func (e *CloseError) Error() string {
	return "client: server returned an error on close: " + e.Text
}

// A HandshakeError is the server's refusal of the handshake.
type HandshakeError struct{ Text string }

// Error returns the server's text.
func (e *HandshakeError) Error() string { return "client: handshake refused: " + e.Text }

// A NegotiateError is an answer to negotiate that carried an error.
type NegotiateError struct{ Text string }

// Error returns the server's text.
func (e *NegotiateError) Error() string { return "client: negotiate refused: " + e.Text }

// A StatusError is an HTTP status other than the one that was needed (200 for
// most requests, 101 for a WebSocket).
type StatusError struct {
	// Step is "negotiate", "connect", or without WebSockets "poll" or "send".
	Step string

	// Status is the HTTP status code, such as 401.
	Status int
}

// Error names the step and the status.
func (e *StatusError) Error() string {
	return "client: " + e.Step + ": status " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
}
