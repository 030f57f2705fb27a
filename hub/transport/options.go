package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// Defaults and limits of Options.
const (
	DefaultTokenLifetime         = 15 * time.Second
	DefaultWebSocketCloseTimeout = 5 * time.Second
	DefaultSpentTokens           = 1 << 17
	DefaultDisconnectTimeout     = 15 * time.Second
	DefaultPollTimeout           = 90 * time.Second
	DefaultMaxPending            = 10_000
)

// Options configure an Endpoint. The zero value of every field but Open means
// its default.
type Options struct {
	// Open is asked once per new connection, after all checks and before the
	// upgrade, the first poll's answer or the first byte of an event stream.
	// The serve it returns runs on a goroutine of its own (for an event
	// stream: that of the request), the connection's reader, and blocks until
	// the connection is over. An error refuses the request, with the status
	// of a *StatusError or else 500, and leaves the token unspent. The
	// request must not be kept, and its context ends with it. Should the
	// client vanish meanwhile, serve is never called. Required.
	Open func(r *http.Request, c Info) (serve func(Conn), err error)

	// Authorize is asked on every request but a preflight, negotiate
	// included, before everything but the origin is checked. Its context is
	// the request's from then on, so that what it found out reaches Open; nil
	// keeps the old one. An error refuses the request, with the status of a
	// *StatusError or else an empty 401. Nil lets everybody in.
	Authorize func(r *http.Request) (context.Context, error)

	// Subject says, after Authorize, who a request acts for; empty means
	// nobody in particular. All requests of a connection must act for whom the
	// first did, else they get 403, unless that was nobody: with another's
	// connection token one can neither listen nor speak for them. Nil means
	// nobody.
	Subject func(r *http.Request) string

	// Refreshed is asked, after Authorize, on every later request of an open
	// connection: a poll, a POST, a DELETE, another socket in a lost one's
	// place. id is the connection's public id. An error refuses that request
	// like one of Authorize's, and the connection goes on. Nil allows them.
	Refreshed func(r *http.Request, id string) error

	// Transports are the transports on offer, in the order in which clients
	// should try them. Zero means WebSockets, ServerSentEvents, LongPolling.
	// SignalR: HttpConnectionDispatcherOptions.Transports.
	Transports []Kind

	// AllowStatefulReconnects lets a client that asks for it replace the lost
	// socket of a WebSocket connection: its Conn is a ResumableConn. SignalR:
	// HttpConnectionDispatcherOptions.AllowStatefulReconnects.
	AllowStatefulReconnects bool

	// MinimumNegotiateVersion is the least version of negotiate that a client
	// may ask for; the answer's is never above 1. Zero means 0, which is every
	// version there is; negative lets in even those that there are not.
	// SignalR: MinimumProtocolVersion.
	MinimumNegotiateVersion int

	// Keys sign connection tokens. Instances behind one balancer must share
	// them. Nil means a random key of this endpoint.
	Keys KeySource

	// Claims makes sure that one token opens one connection. Nil means a
	// table of this endpoint with room for 131,072 tokens that were used but
	// have not expired; above it new connections get 503.
	Claims Claims

	// Instance and Advertise are written into tokens as the connection's
	// owner and the address under which other instances reach it. At most
	// 255 bytes each.
	Instance  string
	Advertise string

	// AllowedOrigins are the origins from which browsers may come, such as
	// "https://app.example" or "http://localhost:8080"; "*" means any, then
	// without credentials. Zero means the origin of the request itself only:
	// scheme, host and port as in the Host header. Where TLS ends at a proxy,
	// the scheme is the proxy's X-Forwarded-Proto. A request without Origin is
	// not a browser's and passes.
	AllowedOrigins []string

	// CookieCredentials says that Authorize believes cookies. Browsers send
	// those by themselves, so a WebSocket that brings a cookie and neither an
	// Origin, which every browser sends, nor a bearer token is refused with
	// 403: something in between has taken the Origin away.
	CookieCredentials bool

	// TokenLifetime is how long after negotiate a client may connect. Zero
	// means 15 s, as SignalR waits for an unattached connection.
	TokenLifetime time.Duration

	// WebSocketCloseTimeout bounds the wait for the peer's close frame after
	// SendClose, and for the poll that fetches the end of a long polling
	// connection. Zero means 5 s. SignalR: WebSocketOptions.CloseTimeout.
	WebSocketCloseTimeout time.Duration

	// DisconnectTimeout is for how long a connection may be without a
	// request: between two polls, between two sockets of a ResumableConn,
	// between the first POST and the request that receives. Zero means 15 s.
	// SignalR: the same.
	DisconnectTimeout time.Duration

	// PollTimeout is when a poll without data is answered, so that the client
	// sends the next one. Zero means 90 s; clients give up after 100 s.
	// SignalR: LongPollingOptions.PollTimeout.
	PollTimeout time.Duration

	// MaxPending bounds the connections that a POST began before there was
	// any request to receive with, and those that are over while the client
	// does not know it yet. Zero means 10,000. Above it such a POST gets 503,
	// and a client that is late 404.
	MaxPending int

	// MaxConnections bounds the open connections; above it new ones get 503.
	// Zero means no bound.
	MaxConnections int

	// Logger receives one line per refused request at Debug, and at most one
	// a minute and cause at Warn for refusals that point at a proxy or a
	// configuration. Nil discards it.
	Logger *slog.Logger
}

// Info describes a connection that is about to be opened.
type Info struct {
	// ID is the connection's public id: 22 characters, or the whole token
	// for a client that negotiated version 0 and knows no other.
	ID string

	// Kind is the transport.
	Kind Kind

	// Negotiated is false for a client that skipped negotiation.
	Negotiated bool
}

// A StatusError refuses a request with an HTTP status.
type StatusError struct {
	// Code is the HTTP status, 400 to 599; anything else is sent as 500.
	Code int

	// Text is the body, as text/plain, and may be empty: some clients show
	// it to their users.
	Text string

	// RetryAfter, when positive, is sent in whole seconds, rounded up.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("transport: status %d", e.Code)
	}
	return fmt.Sprintf("transport: status %d: %s", e.Code, e.Text)
}

// withDefaults checks the options and fills in the rest. Slices are copied.
func (o Options) withDefaults() (Options, error) {
	if o.Open == nil {
		return o, errors.New("transport: Options.Open is required")
	}
	if len(o.Transports) == 0 {
		o.Transports = []Kind{WebSockets, ServerSentEvents, LongPolling}
	}
	o.Transports = slices.Clone(o.Transports)
	for i, kind := range o.Transports {
		if kind != WebSockets && kind != ServerSentEvents && kind != LongPolling {
			return o, fmt.Errorf("transport: Options.Transports: %q is not available", kind)
		}
		if slices.Contains(o.Transports[:i], kind) {
			return o, fmt.Errorf("transport: Options.Transports: %q stands there twice", kind)
		}
	}
	if len(o.Instance) > maxTokenText {
		return o, fmt.Errorf("transport: Options.Instance: %d bytes, at most %d", len(o.Instance), maxTokenText)
	}
	if len(o.Advertise) > maxTokenText {
		return o, fmt.Errorf("transport: Options.Advertise: %d bytes, at most %d", len(o.Advertise), maxTokenText)
	}
	if o.TokenLifetime < 0 || o.WebSocketCloseTimeout < 0 || o.MaxConnections < 0 {
		return o, errors.New("transport: Options.TokenLifetime, WebSocketCloseTimeout and MaxConnections must not be negative")
	}
	if o.DisconnectTimeout < 0 || o.PollTimeout < 0 || o.MaxPending < 0 {
		return o, errors.New("transport: Options.DisconnectTimeout, PollTimeout and MaxPending must not be negative")
	}
	o.TokenLifetime = cmp.Or(o.TokenLifetime, DefaultTokenLifetime)
	o.WebSocketCloseTimeout = cmp.Or(o.WebSocketCloseTimeout, DefaultWebSocketCloseTimeout)
	o.DisconnectTimeout = cmp.Or(o.DisconnectTimeout, DefaultDisconnectTimeout)
	o.PollTimeout = cmp.Or(o.PollTimeout, DefaultPollTimeout)
	o.MaxPending = cmp.Or(o.MaxPending, DefaultMaxPending)
	if o.Keys == nil {
		o.Keys = RandomKeys()
	}
	if o.Claims == nil {
		o.Claims = NewClaims(DefaultSpentTokens, o.Keys.Now)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
