package hub

import (
	"errors"
	"fmt"
)

// An Error is meant for the client: its text is sent, behind SignalR's fixed
// sentence and "HubException: ". Every other error of a method stays here; the
// client reads the fixed sentence alone and the log gets the cause.
type Error struct {
	text  string
	cause error
}

// Errorf returns an Error with the formatted text. A %w verb keeps its operand
// reachable for errors.Is and errors.As, as fmt.Errorf does.
func Errorf(format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{text: wrapped.Error(), cause: wrapped}
}

// Error returns the text that the client reads.
func (e *Error) Error() string { return e.text }

// Unwrap returns what the text was made of.
func (e *Error) Unwrap() error { return e.cause }

// A NamedError is an error with a type name of its own, which clients see in
// front of its text where EnableDetailedErrors is on. Errors without one are
// shown as "Exception".
type NamedError interface {
	error
	TypeName() string
}

// Causes that callers branch on, compared with errors.Is.
var (
	// ErrConnectionNotFound: no instance has a connection with that id, or
	// it has ended.
	ErrConnectionNotFound = errors.New("hub: connection not found")

	// ErrUnavailable: what was asked needs other instances and the
	// backplane does not reach them now, or its publish queue is full.
	ErrUnavailable = errors.New("hub: backplane unavailable")

	// ErrNoAnswer: the client did not answer within ClientResultTimeout, or
	// the instance that owns the connection did not acknowledge a group
	// change within AckTimeout. That one may have made it, or refused it: the
	// wire between instances has no word for a refusal.
	ErrNoAnswer = errors.New("hub: no answer in time")

	// ErrTooManyGroups: the connection is in MaximumGroupsPerConnection
	// groups already.
	ErrTooManyGroups = errors.New("hub: too many groups for one connection")

	// ErrBadName: a name is empty, too long, not UTF-8 or has control
	// characters.
	ErrBadName = errors.New("hub: bad name")

	// ErrNotRunning: the hub's Run has not been called or has ended.
	ErrNotRunning = errors.New("hub: not running")
)

// detail returns what follows the fixed sentence in an error text for clients:
// " Type: message" for errors that may be shown, else nothing.
func detail(err error, detailed bool) string {
	var forClient *Error
	if errors.As(err, &forClient) {
		return " HubException: " + forClient.Error()
	}
	if !detailed {
		return ""
	}
	name := "Exception"
	var named NamedError
	if errors.As(err, &named) {
		name = named.TypeName()
	}
	return " " + name + ": " + err.Error()
}
