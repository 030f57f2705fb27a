package backplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Errors callers branch on, with errors.Is. All but ErrAuth, ErrNotRedis,
// ErrTooLarge, ErrNotSubscribed and ErrUnsupportedScheme have a method
// Unavailable() bool that returns true, so that a package that does not import
// this one can tell them too.
var (
	// ErrUnavailable says that Redis cannot be reached, did not answer in
	// time, or that a queue stayed full. What was asked has not been done.
	ErrUnavailable error = &unavailableError{text: "redis is unavailable"}

	// ErrLost says that a message was written, but the link broke before Redis
	// answered: it may have been delivered, it will not be sent again. It is
	// also an ErrUnavailable.
	ErrLost error = &unavailableError{text: "link to redis broke before it answered", also: ErrUnavailable}

	// ErrClosed says that Run has ended. It is also an ErrUnavailable.
	ErrClosed error = &unavailableError{text: "backplane is closed", also: ErrUnavailable}

	// ErrAuth says that Redis refuses the user, the password, or an operation
	// the user has no permission for.
	ErrAuth = errors.New("redis refused access")

	// ErrNotRedis says that something answers at the address that is no Redis,
	// or that the two sides disagree about TLS.
	ErrNotRedis = errors.New("not a redis server")

	// ErrTooLarge says that a message is larger than the whole publish queue.
	ErrTooLarge = errors.New("message is larger than the publish queue")

	// ErrNotSubscribed says that Unsubscribe was called more often than
	// Subscribe.
	ErrNotSubscribed = errors.New("not subscribed")

	// ErrUnsupportedScheme says that Options.URL names a kind of Redis this
	// package cannot use.
	ErrUnsupportedScheme = errors.New("unsupported scheme")
)

// unavailableError is an error for which Redis not being there is the reason.
type unavailableError struct {
	text string
	also error
}

func (e *unavailableError) Error() string { return e.text }

// Is makes the more specific errors also an ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return e.also != nil && target == e.also }

// Unavailable is true: this error means that Redis was not there.
func (e *unavailableError) Unavailable() bool { return true }

// Causes for which a link ends, besides errors of the network.
var (
	errSilent  = errors.New("redis does not answer")
	errClosing = errors.New("closing")
	errReply   = errors.New("unexpected reply on the subscription connection")
)

// serverError is an error of a server, of one of the kinds above.
type serverError struct {
	kind   error
	detail string
	err    error
}

func (e *serverError) Error() string {
	if e.detail == "" {
		return e.kind.Error() + ": " + e.err.Error()
	}
	return e.kind.Error() + ": " + e.detail + ": " + e.err.Error()
}

func (e *serverError) Unwrap() []error { return []error{e.kind, e.err} }

// Unavailable reports whether Redis not being there is the reason.
func (e *serverError) Unavailable() bool { return e.kind == ErrUnavailable }

// classify gives an error of go-redis or of the network one of our kinds. No
// text of these errors contains a password.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return classifyReply(reply)
	}
	if _, ok := errors.AsType[*serverError](err); ok || errors.Is(err, ErrUnavailable) {
		return err
	}
	if detail := tlsDetail(err); detail != "" {
		return &serverError{kind: ErrNotRedis, detail: detail, err: err}
	}
	if isNetworkError(err) {
		detail := ""
		if hungUp(err) {
			detail = "connection closed by the other side"
		}
		return &serverError{kind: ErrUnavailable, detail: detail, err: err}
	}
	return &serverError{kind: ErrNotRedis, err: err}
}

// classifyReply sorts the error replies of Redis.
func classifyReply(reply redis.Error) error {
	text := reply.Error()
	for _, known := range []struct{ prefix, detail string }{
		{"WRONGPASS", "wrong user name or password"},
		{"ERR invalid password", "wrong password"},
		{"ERR AUTH", "a password was given, the server has none"},
		{"ERR Client sent AUTH", "a password was given, the server has none"},
		{"NOAUTH", "a password is required"},
		{"NOPERM", "the user lacks a permission"},
		{"DENIED", "the server is in protected mode"},
	} {
		if strings.HasPrefix(text, known.prefix) {
			return &serverError{kind: ErrAuth, detail: known.detail, err: reply}
		}
	}
	return &serverError{kind: ErrUnavailable, err: reply}
}

// tlsDetail says what is wrong if the two sides do not agree about TLS.
func tlsDetail(err error) string {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the other side does not speak TLS"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate is not accepted"
	}
	if _, ok := errors.AsType[*handshakeError](err); ok && !isNetworkError(err) {
		return "no agreement about TLS"
	}
	return ""
}

// isNetworkError reports whether the error is of the connection rather than of
// what came through it.
func isNetworkError(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, errDialedTwice, errSilent, errClosing,
		context.Canceled, context.DeadlineExceeded,
		redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// hungUp reports whether the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain prefers what a server said before it hung up.
func explain(err error, conn *netConn) error {
	if err != nil && hungUp(err) {
		if reply, ok := conn.farewell(); ok {
			return reply
		}
	}
	return err
}

// waitError is the error of a call whose context or time limit ended.
func waitError(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("backplane: %s: %w", what, err)
	}
	return fmt.Errorf("backplane: %s: %w", what, ErrUnavailable)
}
