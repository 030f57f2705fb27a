package transport

import (
	"errors"
	"time"
)

// A Kind names a transport as negotiate spells it.
type Kind string

// The transports of SignalR (TransportProtocols.md).
const (
	WebSockets       Kind = "WebSockets"
	ServerSentEvents Kind = "ServerSentEvents"
	LongPolling      Kind = "LongPolling"
)

// Status codes of RFC 6455 section 7.4.1 that a hub ends a WebSocket with.
const (
	StatusNormal        = 1000
	StatusGoingAway     = 1001
	StatusInternalError = 1011
)

// A Conn is one connection as the hub sees it: pieces of a byte stream come
// in, batches of whole messages go out. It has no opinion about what the bytes
// mean.
//
// One goroutine calls Receive, and never more than one at a time calls Send or
// SendClose; CloseNow may be called by anybody, at any time, more than once.
type Conn interface {
	// ID is the public connection id: 22 characters of base64url for 16
	// random bytes (ConnectionToken and id: TransportProtocols.md). That of
	// a WebSocket whose client negotiated version 0 is longer: it is the
	// token, which nobody can use again. Over the other transports, where the
	// token is used for the connection's life, such a client knows an id that
	// is not this one.
	ID() string

	// Kind says which transport this is.
	Kind() Kind

	// Binary reports whether the transport carries binary messages.
	Binary() bool

	// RemoteAddr is the peer's address as the HTTP server saw it.
	RemoteAddr() string

	// Receive waits for the next piece of the client's byte stream. Where
	// pieces begin and end means nothing. The piece is valid until the next
	// call. It returns io.EOF after the client's polite end, and another
	// error after any other end, CloseNow included.
	Receive() ([]byte, error)

	// Send writes whole messages, in order, as few times as it can, and
	// returns when the operating system (for long polling: the poll) has
	// taken them or the deadline has passed. On long polling the time until
	// deadline begins when a poll has come, for which DisconnectTimeout is the
	// bound. Behind a close frame, or its like elsewhere, it returns
	// ErrClosing. After an error the connection is of no more use.
	Send(batch []*Message, deadline time.Time) error

	// SendClose tells the peer that nothing follows: by a WebSocket close
	// frame with the status, by answering the next poll 204, or by the end of
	// an event stream, which comes when serve returns. Receive goes on until
	// the peer has answered (a poll was told, an event stream at once), the
	// endpoint's close timeout has passed or CloseNow is called. Only the
	// first call has an effect.
	SendClose(status int, deadline time.Time) error

	// LastReceived says how long after the connection's start its last byte
	// of any kind arrived, a pong below the hub and a poll included.
	LastReceived() time.Duration

	// Age says how long ago the connection began (the upgrade, not the
	// handshake).
	Age() time.Duration

	// CloseNow drops the connection without ceremony and frees a blocked
	// Receive or Send.
	CloseNow()
}

// A ResumableConn is what a Conn also is when its client and this endpoint
// have agreed on stateful reconnects: its socket may be lost and another of the
// same token take its place, while the connection lives on. It keeps nothing:
// what was lost with a socket is the hub's to send again.
type ResumableConn interface {
	Conn

	// AllowResume says whether another socket may take the place of a lost
	// one. At first none may: the loss is the connection's end, and a second
	// socket is refused with 409. Switched off while no socket is attached,
	// it ends the connection. Close frames end it in any case.
	AllowResume(on bool)

	// Resume lets Send through to the socket that Receive has announced with
	// ErrResumed.
	Resume()
}

// What a ResumableConn returns when its socket is replaced.
var (
	// ErrDetached: the socket is lost and may be replaced. Receive returns
	// it once for each loss, Send until Resume is called.
	ErrDetached = errors.New("transport: the socket is lost")

	// ErrResumed: another socket has taken the lost one's place. The pieces
	// that Receive returns next are from that one.
	ErrResumed = errors.New("transport: another socket took the lost one's place")
)
