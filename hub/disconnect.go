package hub

import (
	"errors"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A Disconnect is a reason why a connection ended. The values below are all
// there are; they are errors, reach OnDisconnected (possibly wrapped) and are
// compared with errors.Is.
type Disconnect struct {
	reason         string
	message        string
	detail         string // told to clients behind the fixed sentence
	named          bool   // told even without EnableDetailedErrors
	failed         bool   // the Close message carries an error
	allowReconnect bool
	quiet          bool // no Close message: nobody is there to read it
}

// Error describes the reason for logs.
func (d *Disconnect) Error() string { return "hub: " + d.message }

// Reason is the closed word for the reason, for metrics and logs.
func (d *Disconnect) Reason() string { return d.reason }

// Why connections end. Clients may reconnect by themselves after those whose
// Close message allows it (HubProtocol.md, "Close Message Encoding").
var (
	// ErrClosedByClient: the client said Close or ended its transport politely.
	ErrClosedByClient = &Disconnect{reason: "client_closed", message: "closed by the client"}

	// ErrPeerGone: the transport broke, or the peer no longer answers below the hub.
	ErrPeerGone = &Disconnect{reason: "peer_gone", message: "the peer is gone", quiet: true}

	// ErrAborted: the application called Abort. Clients do not reconnect.
	ErrAborted = &Disconnect{reason: "aborted", message: "aborted by the application"}

	// ErrClientTimeout: silent for ClientTimeoutInterval. Clients may reconnect.
	ErrClientTimeout = &Disconnect{
		reason: "client_timeout", message: "the client was silent for too long", failed: true, named: true, allowReconnect: true,
		detail: "OperationCanceledException: Client hasn't sent a message/ping within the configured ClientTimeoutInterval.",
	}

	// ErrSlowConsumer: the outbound queue was full, or a write took longer
	// than WriteTimeout. Clients may reconnect.
	ErrSlowConsumer = &Disconnect{
		reason: "slow_consumer", message: "the client does not read fast enough", failed: true, named: true, allowReconnect: true,
		detail: "SlowConsumer: The client did not read its messages fast enough.",
	}

	// ErrMessageTooBig: a record was larger than MaximumReceiveMessageSize. Clients may reconnect.
	ErrMessageTooBig = &Disconnect{reason: "message_too_big", message: "a record was too large", failed: true, named: true, allowReconnect: true}

	// ErrProtocol: the client broke the hub protocol. It may reconnect.
	ErrProtocol = &Disconnect{reason: "protocol_error", message: "the client broke the hub protocol", failed: true, allowReconnect: true}

	// ErrUnencodable: a result could not be encoded for this client. It may reconnect.
	ErrUnencodable = &Disconnect{reason: "unencodable", message: "a value could not be encoded", failed: true, allowReconnect: true}

	// ErrConnectFailed: OnConnected returned an error. Clients do not reconnect.
	ErrConnectFailed = &Disconnect{reason: "connect_failed", message: "the connect callback failed", failed: true}

	// ErrHandshake: no valid handshake came in time. The connection never counted as one.
	ErrHandshake = &Disconnect{reason: "handshake_failed", message: "no valid handshake", quiet: true}

	// ErrAuthenticationExpired: Identity.Expires has come. Clients may
	// reconnect, with a new token.
	ErrAuthenticationExpired = &Disconnect{reason: "authentication_expired", message: "the authentication has expired", allowReconnect: true}

	// ErrShutdown: this instance stops. Clients may reconnect, and find another.
	ErrShutdown = &Disconnect{reason: "shutdown", message: "the server is shutting down", allowReconnect: true}
)

// disconnectReasons lists every reason, for the counters.
func disconnectReasons() []*Disconnect {
	return []*Disconnect{
		ErrClosedByClient, ErrPeerGone, ErrAborted, ErrClientTimeout, ErrSlowConsumer, ErrMessageTooBig,
		ErrProtocol, ErrUnencodable, ErrConnectFailed, ErrHandshake, ErrShutdown, ErrAuthenticationExpired,
	}
}

// ended is a Disconnect with the error that led to it.
type ended struct {
	*Disconnect
	cause error
}

func (e *ended) Error() string   { return e.Disconnect.Error() + ": " + e.cause.Error() }
func (e *ended) Unwrap() []error { return []error{e.Disconnect, e.cause} }

// because returns d with its cause.
func (d *Disconnect) because(cause error) error {
	if cause == nil {
		return d
	}
	return &ended{Disconnect: d, cause: cause}
}

// disconnectOf returns the reason inside a connection's cause.
func disconnectOf(cause error) *Disconnect {
	var e *ended
	if errors.As(cause, &e) {
		return e.Disconnect
	}
	var d *Disconnect
	if errors.As(cause, &d) {
		return d
	}
	return ErrAborted
}

// closedWithError is the head of every Close error (server behaviour: it is
// what the official server sends).
const closedWithError = "Connection closed with an error."

// closeText is the error of the Close message for a cause, or empty.
func closeText(cause error, detailed bool) string {
	d := disconnectOf(cause)
	if !d.failed {
		return ""
	}
	if !detailed && !d.named {
		var forClient *Error
		if d == ErrConnectFailed && errors.As(cause, &forClient) {
			return closedWithError + detail(forClient, false)
		}
		return closedWithError
	}
	if d.detail != "" {
		return closedWithError + " " + d.detail
	}
	var broken *protocol.Error
	if errors.As(cause, &broken) {
		return closedWithError + " InvalidDataException: " + broken.Detail
	}
	var e *ended
	if errors.As(cause, &e) {
		return closedWithError + detail(e.cause, true)
	}
	return closedWithError
}
