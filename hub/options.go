package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// Defaults of Options.
const (
	DefaultKeepAliveInterval         = 15 * time.Second
	DefaultClientTimeoutInterval     = 30 * time.Second
	DefaultHandshakeTimeout          = 15 * time.Second
	DefaultMaximumReceiveMessageSize = 32 * 1024
	DefaultOutboundMessages          = 32768
	DefaultOutboundBytes             = 16 << 20
	DefaultOutboundTotalBytes        = 512 << 20
	DefaultWriteTimeout              = 10 * time.Second
	DefaultCloseTimeout              = 5 * time.Second
	DefaultInvocationQueue           = 64
	DefaultGroupsPerConnection       = 1000
	DefaultAckTimeout                = 30 * time.Second
	DefaultClientResultTimeout       = 30 * time.Second
	DefaultStreamBufferCapacity      = 10
	DefaultStatefulReconnectBuffer   = 100000
	DefaultStreamsPerConnection      = 100
	DefaultBackplaneTimeout          = 5 * time.Second
)

// A Backplane carries bytes on named channels between the instances of a
// fleet. One may serve several hubs. Deliveries of one backplane come one
// after another, in the order in which each channel's messages were published.
// Subscriptions are counted: every Subscribe wants its own Unsubscribe.
type Backplane interface {
	// Publish returns when the payload has its place in the ordered publish
	// queue. The payload must not be changed afterwards.
	Publish(ctx context.Context, channel string, payload []byte) error

	// Subscribe returns once the subscription is confirmed. It waits for ctx,
	// and by itself no longer than some seconds. When it returns an error the
	// registration stays, and takes effect when the link is back; an error
	// with a method Unavailable() bool that returns true says that the link is
	// known to be away. deliver must not block.
	Subscribe(ctx context.Context, deliver func(channel string, payload []byte), channels ...string) error

	// Unsubscribe gives registrations back, without waiting for the link.
	Unsubscribe(ctx context.Context, channels ...string) error

	// Receivers says how many instances are subscribed to the channel.
	Receivers(ctx context.Context, channel string) (int, error)
}

// Options configure a Hub. The zero value of every field means its default.
type Options struct {
	// Name is the hub key, which names the hub's channels on the backplane:
	// in a fleet with ASP.NET Core servers the full type name of their hub,
	// such as "Contoso.Chat.ChatHub". Required.
	Name string

	// Instance names this process towards clients and in logs. Zero means a
	// random name.
	Instance string

	// Logger receives the hub's log; nil discards it.
	Logger *slog.Logger

	// Backplane joins this hub with those of other instances; nil means
	// that it is alone. The caller runs it.
	Backplane Backplane

	// Protocols are the hub protocols that clients may choose and in which
	// every message is published. Zero means JSON and MessagePack.
	Protocols []protocol.Protocol

	// Authenticate names who a request acts for, from its headers and query
	// (see transport.BearerToken).
	// It runs for every request of a connection. An error refuses the
	// request with 401; a *transport.StatusError chooses another status.
	// Nil means that connections have no identity.
	Authenticate func(r *http.Request) (*Identity, error)

	// Authorize decides, after Authenticate and for every request, whether
	// this hub may be used: id is nil where Authenticate has named nobody. An
	// error refuses the request with 403; a *transport.StatusError chooses
	// another status. Nil lets everybody in. For single methods see Rule.
	Authorize func(id *Identity, r *http.Request) error

	// CloseOnAuthenticationExpiration ends a connection, within a second and
	// so that its client may reconnect, when its Identity.Expires has come.
	// Each poll of a long polling connection brings a new time. Off by
	// default: what was let in stays.
	// SignalR: HttpConnectionDispatcherOptions.CloseOnAuthenticationExpiration.
	CloseOnAuthenticationExpiration bool

	// BaseContext gives a connection's context its values, from the request
	// that opened it; the context's end is not the connection's. Nil means
	// no values: those of the request would keep about 700 bytes of the HTTP
	// server's per connection alive.
	BaseContext func(r *http.Request) context.Context

	// AllowedOrigins are the origins from which browsers may connect, such
	// as "https://app.example". Zero means the same origin only.
	AllowedOrigins []string

	// Transports are the transports on offer, in the order in which clients
	// should try them. Zero means WebSockets, ServerSentEvents, LongPolling.
	// SignalR: HttpConnectionDispatcherOptions.Transports.
	Transports []transport.Kind

	// Advertise is the address, "host:port" or "https://host:port", under
	// which the other instances reach this one's HTTP listener, at the same
	// paths: polls, POSTs and event streams that arrive at another instance
	// are passed on to it. Empty means that they are not, and all requests of
	// such a connection must come here.
	Advertise string

	// MinimumNegotiateVersion refuses clients that negotiate with less. Zero
	// lets in all. SignalR: MinimumProtocolVersion.
	MinimumNegotiateVersion int

	// DisconnectTimeout is for how long a connection may be without a
	// request: between two polls, or between two sockets where stateful
	// reconnects are allowed. Zero means 15 s.
	DisconnectTimeout time.Duration

	// PollTimeout is when a poll without data is answered. Zero means 90 s;
	// clients give up after 100 s.
	PollTimeout time.Duration

	// CookieCredentials says that Authenticate believes cookies: then a
	// WebSocket whose one credential is a cookie needs an Origin, too. Zero
	// means that credentials are tokens, and that a missing Origin, which is
	// no browser's, always passes.
	CookieCredentials bool

	// TokenKeys sign the connection tokens, which all instances behind one
	// balancer must share. Zero means the backplane's shared key where it
	// has one, else a random key of this process.
	TokenKeys transport.KeySource

	// MaxConnections bounds the open connections; above it requests get
	// 503. Zero means no bound.
	MaxConnections int

	// KeepAliveInterval is how often clients get a ping, whatever else they
	// get. Zero means 15 s. Keep it at most half of the clients' server
	// timeout (30 s). SignalR: HubOptions.KeepAliveInterval.
	KeepAliveInterval time.Duration

	// ClientTimeoutInterval is how long a client may stay silent, counted
	// from its first ping, before its connection ends with ErrClientTimeout.
	// A client that has never pinged is asked below the hub instead. Zero
	// means 30 s. SignalR: HubOptions.ClientTimeoutInterval.
	ClientTimeoutInterval time.Duration

	// HandshakeTimeout bounds the time from the upgrade to a whole handshake
	// request. Zero means 15 s. SignalR: HubOptions.HandshakeTimeout.
	HandshakeTimeout time.Duration

	// MaximumReceiveMessageSize bounds one record from a client, framing
	// included, in bytes. Zero means 32,768, a negative value no bound.
	// SignalR: HubOptions.MaximumReceiveMessageSize.
	MaximumReceiveMessageSize int

	// MaximumParallelInvocationsPerClient is how many calls of one client
	// run at once; they start in order. Zero means 1.
	// SignalR: HubOptions.MaximumParallelInvocationsPerClient.
	MaximumParallelInvocationsPerClient int

	// EnableDetailedErrors shows clients the errors of methods. Off by
	// default: they may tell secrets. SignalR: HubOptions.EnableDetailedErrors.
	EnableDetailedErrors bool

	// OutboundMessages and OutboundBytes bound what waits for one slow
	// client before its connection ends with ErrSlowConsumer. Zero means
	// 32,768 messages and 16 MiB.
	OutboundMessages int
	OutboundBytes    int

	// OutboundTotalBytes bounds the distinct bytes that wait in all queues
	// of the hub; above it connections that are behind end first. Zero
	// means 512 MiB.
	OutboundTotalBytes int

	// WriteTimeout bounds one write to a client. Zero means 10 s.
	// SignalR: TransportSendTimeout.
	WriteTimeout time.Duration

	// CloseTimeout is how long a client may take to answer a close. Zero
	// means 5 s. SignalR: WebSocketOptions.CloseTimeout.
	CloseTimeout time.Duration

	// InvocationQueue bounds the calls of one client that wait for their
	// turn; while it is full nothing more is read from that client. Zero
	// means 64.
	InvocationQueue int

	// AllowStatefulReconnects lets clients that ask for it go on, after their
	// WebSocket broke, on another one: nothing is lost or repeated, and
	// neither OnDisconnected nor OnConnected runs. Off by default.
	// SignalR: HttpConnectionDispatcherOptions.AllowStatefulReconnects.
	AllowStatefulReconnects bool

	// StatefulReconnectBufferSize is how many bytes may have been sent to
	// such a client without being acknowledged; then nothing more is written
	// until it acknowledges, and one that does not within WriteTimeout ends
	// with ErrSlowConsumer. Zero means 100,000.
	// SignalR: HubOptions.StatefulReconnectBufferSize.
	StatefulReconnectBufferSize int

	// StreamBufferCapacity is how many items of one upload wait for its
	// method; see Upload for what happens beyond. Zero means 10.
	// SignalR: HubOptions.StreamBufferCapacity.
	StreamBufferCapacity int

	// MaximumStreamsPerConnection bounds the streams of one connection, in
	// either direction, that run or wait for their turn; further ones are
	// refused with an error. Zero means 100.
	MaximumStreamsPerConnection int

	// ClientResultTimeout bounds the wait for a client's result (see Invoke).
	// Zero means 30 s.
	ClientResultTimeout time.Duration

	// MaximumGroupsPerConnection bounds the groups of one connection. Zero
	// means 1,000.
	MaximumGroupsPerConnection int

	// AckTimeout bounds the wait for another instance to acknowledge a group
	// change. Zero means 30 s.
	AckTimeout time.Duration
}

// withDefaults returns a checked copy.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		return o, errors.New("hub: Options.Name is empty")
	}
	if err := validName("hub", o.Name); err != nil {
		return o, fmt.Errorf("hub: Options.Name: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Protocols) == 0 {
		o.Protocols = []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}}
	}
	if len(o.Protocols) > maxProtocols {
		return o, fmt.Errorf("hub: Options.Protocols: %d, more than %d", len(o.Protocols), maxProtocols)
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		zero  time.Duration
	}{
		{"KeepAliveInterval", &o.KeepAliveInterval, DefaultKeepAliveInterval},
		{"ClientTimeoutInterval", &o.ClientTimeoutInterval, DefaultClientTimeoutInterval},
		{"HandshakeTimeout", &o.HandshakeTimeout, DefaultHandshakeTimeout},
		{"WriteTimeout", &o.WriteTimeout, DefaultWriteTimeout},
		{"CloseTimeout", &o.CloseTimeout, DefaultCloseTimeout},
		{"AckTimeout", &o.AckTimeout, DefaultAckTimeout},
		{"ClientResultTimeout", &o.ClientResultTimeout, DefaultClientResultTimeout},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("hub: Options.%s is negative", d.field)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	for _, n := range []struct {
		field string
		value *int
		zero  int
	}{
		{"MaximumParallelInvocationsPerClient", &o.MaximumParallelInvocationsPerClient, 1},
		{"OutboundMessages", &o.OutboundMessages, DefaultOutboundMessages},
		{"OutboundBytes", &o.OutboundBytes, DefaultOutboundBytes},
		{"OutboundTotalBytes", &o.OutboundTotalBytes, DefaultOutboundTotalBytes},
		{"InvocationQueue", &o.InvocationQueue, DefaultInvocationQueue},
		{"StatefulReconnectBufferSize", &o.StatefulReconnectBufferSize, DefaultStatefulReconnectBuffer},
		{"StreamBufferCapacity", &o.StreamBufferCapacity, DefaultStreamBufferCapacity},
		{"MaximumStreamsPerConnection", &o.MaximumStreamsPerConnection, DefaultStreamsPerConnection},
		{"MaximumGroupsPerConnection", &o.MaximumGroupsPerConnection, DefaultGroupsPerConnection},
	} {
		if *n.value < 0 {
			return o, fmt.Errorf("hub: Options.%s is negative", n.field)
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	switch {
	case o.MaximumReceiveMessageSize == 0:
		o.MaximumReceiveMessageSize = DefaultMaximumReceiveMessageSize
	case o.MaximumReceiveMessageSize < 0:
		o.MaximumReceiveMessageSize = 0
	}
	return o, nil
}
