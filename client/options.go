package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Defaults and fixed limits.
const (
	defaultServerTimeout     = 30 * time.Second
	defaultKeepAliveInterval = 15 * time.Second
	defaultHandshakeTimeout  = 15 * time.Second
	defaultMaximumReceive    = 16 << 20
	defaultHandlerQueue      = 1024
	defaultStreamBuffer      = 1024
	defaultStatefulBuffer    = 100_000

	maxHandlerBytes  = 16 << 20 // of messages that wait for handlers
	maxStreamBytes   = 4 << 20  // of the items of one stream that wait for its loop
	maxOutboundBytes = 32 << 10 // of records that wait to be written
	maxRedirects     = 100
	maxNegotiateBody = 64 << 10

	requestTimeout = 100 * time.Second // of one HTTP request, as in the JavaScript client
	writeTimeout   = 10 * time.Second
	closeTimeout   = 5 * time.Second  // of the polite end of a WebSocket
	resumeTimeout  = 15 * time.Second // as long as servers keep a connection without a socket
	stallTimeout   = 10 * time.Second // that the reader waits for the loop of a stream
	readerGrace    = 2 * time.Second  // for what arrived before a write failed
)

// Options say where to connect and how. Only URL is needed. New copies them.
type Options struct {
	// URL is the hub's URL: http, https, ws or wss. Its query is kept on
	// every request.
	URL string

	// Protocol is the hub protocol. Nil means protocol.JSON{}.
	Protocol protocol.Protocol

	// Transports are those that may be used, in the order of trying: the next
	// one is tried when one does not open, with a negotiation of its own. Nil
	// means WebSockets, ServerSentEvents and LongPolling. Transports that the
	// server does not offer, or that cannot carry the protocol, are left out.
	Transports []Transport

	// SkipNegotiation opens a WebSocket at once. The client then does not
	// know its connection id. Transports must be nil or WebSockets alone.
	SkipNegotiation bool

	// StatefulReconnect asks the server for a connection that outlives its
	// WebSocket: when that is lost, the client opens another one at once and
	// nobody notices; both sides send again what the other has not
	// acknowledged. Servers that do not know or allow it, and other
	// transports, do without. It needs a negotiation.
	StatefulReconnect bool

	// StatefulReconnectBufferSize is how many bytes may have been sent and not
	// been acknowledged: while there are more, calls wait as for room in the
	// outgoing buffer. Zero means 100,000.
	StatefulReconnectBufferSize int

	// AccessToken, if set, is asked before every request, each poll and post
	// included, for the bearer token to send; an empty one is not sent. It may
	// be asked by two goroutines at once.
	AccessToken func(ctx context.Context) (string, error)

	// Header is sent with every request.
	Header http.Header

	// HTTPClient makes the requests. Its Timeout does not apply to those of a
	// connection, some of which last. Nil means a client of its own with the
	// settings of http.DefaultTransport.
	HTTPClient *http.Client

	// Reconnect says whether and when to connect again after a connection
	// was lost. Nil means never. See RetryDelays, DefaultRetryDelays and
	// RetryForever.
	Reconnect ReconnectPolicy

	// ServerTimeout is how long the server may be silent before the
	// connection counts as lost, with ErrServerTimeout. Zero means 30 s. Keep
	// it at least twice the server's keep-alive interval (15 s).
	ServerTimeout time.Duration

	// KeepAliveInterval is how long the client sends nothing before it sends
	// a ping. The first ping follows the handshake. Zero means 15 s.
	KeepAliveInterval time.Duration

	// HandshakeTimeout is how long the server may take to answer the
	// handshake. Zero means 15 s.
	HandshakeTimeout time.Duration

	// MaximumReceiveMessageSize is the size in bytes, framing included, above
	// which a record ends the connection. Zero means 16 MiB.
	MaximumReceiveMessageSize int

	// HandlerQueue is how many messages may wait for handlers; their bytes
	// are limited too, to 16 MiB. Zero means 1024.
	HandlerQueue int

	// StreamBufferCapacity is how many items of one stream may wait for the
	// loop over it (see Stream); their bytes are limited too, to 4 MiB. Zero
	// means 1024.
	StreamBufferCapacity int

	// Logger gets what happens to the connection (Info), what goes wrong
	// without an error to return (Warn), and calls nobody handles (Debug).
	// Nil discards.
	Logger *slog.Logger
}

// check returns a copy with defaults filled in.
func (o Options) check() (Options, *url.URL, error) {
	base, err := parseURL(o.URL)
	if err != nil {
		return o, nil, fmt.Errorf("client: Options.URL: %w", err)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"ServerTimeout", &o.ServerTimeout, defaultServerTimeout},
		{"KeepAliveInterval", &o.KeepAliveInterval, defaultKeepAliveInterval},
		{"HandshakeTimeout", &o.HandshakeTimeout, defaultHandshakeTimeout},
	} {
		if *d.value < 0 {
			return o, nil, fmt.Errorf("client: Options.%s: %v is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaximumReceiveMessageSize", &o.MaximumReceiveMessageSize, defaultMaximumReceive},
		{"HandlerQueue", &o.HandlerQueue, defaultHandlerQueue},
		{"StatefulReconnectBufferSize", &o.StatefulReconnectBufferSize, defaultStatefulBuffer},
		{"StreamBufferCapacity", &o.StreamBufferCapacity, defaultStreamBuffer},
	} {
		if *n.value < 0 {
			return o, nil, fmt.Errorf("client: Options.%s: %d is negative", n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	if o.Transports, err = o.transports(); err != nil {
		return o, nil, err
	}
	if o.Protocol == nil {
		o.Protocol = protocol.JSON{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HTTPClient == nil {
		o.HTTPClient = ownHTTPClient()
	}
	o.Header = o.Header.Clone()
	return o, base, nil
}

// transports returns a copy of Transports with the default filled in.
func (o Options) transports() ([]Transport, error) {
	ts := slices.Clone(o.Transports)
	switch {
	case o.SkipNegotiation && o.StatefulReconnect:
		return nil, errors.New("client: Options.StatefulReconnect: needs a negotiation")
	case len(ts) == 0 && o.SkipNegotiation:
		return []Transport{WebSockets}, nil
	case len(ts) == 0:
		return []Transport{WebSockets, ServerSentEvents, LongPolling}, nil
	case o.SkipNegotiation && (len(ts) != 1 || ts[0] != WebSockets):
		return nil, fmt.Errorf("client: Options.SkipNegotiation: needs WebSockets alone, not %v", ts)
	}
	for i, t := range ts {
		if t != WebSockets && t != ServerSentEvents && t != LongPolling {
			return nil, fmt.Errorf("client: Options.Transports: %q is none", string(t))
		}
		if slices.Contains(ts[:i], t) {
			return nil, fmt.Errorf("client: Options.Transports: %s is there twice", t)
		}
	}
	if o.Protocol != nil && o.Protocol.Binary() && len(ts) == 1 && ts[0] == ServerSentEvents {
		return nil, fmt.Errorf("client: Options.Transports: %s carries text only, and %s is binary", ts[0], o.Protocol.Name())
	}
	return ts, nil
}

// parseURL reads a hub's URL. WebSocket schemes become those of HTTP.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http", "https":
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	default:
		return nil, fmt.Errorf("scheme %q is not http, https, ws or wss", u.Scheme)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%q has no host", u.Redacted())
	}
	u.Fragment = ""
	return u, nil
}

// ownHTTPClient shares no connections with anybody, so that Stop can close the
// idle ones.
func ownHTTPClient() *http.Client {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return &http.Client{Transport: t.Clone()}
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
}
