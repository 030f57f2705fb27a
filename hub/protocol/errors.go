package protocol

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrTooLarge is what errors.Is finds in the error for a record longer than
// the limit. The error itself is an *Error whose Detail names the limit.
var ErrTooLarge = errors.New("protocol: message too large")

// A Reason says, from a closed list, why something was refused. Its text is
// fit for the label of a metric.
type Reason string

// The reasons.
const (
	ReasonTooLarge  Reason = "too_large"  // longer than the limit
	ReasonFraming   Reason = "framing"    // a length prefix no record can have
	ReasonMalformed Reason = "malformed"  // not JSON, not MessagePack, or nested too deep
	ReasonNotRecord Reason = "not_record" // well formed, but not the object or array that a record is
	ReasonMissing   Reason = "missing"    // a field that the message type needs is absent or empty
	ReasonWrongType Reason = "wrong_type" // a field holds a value of the wrong type
	ReasonConflict  Reason = "conflict"   // a completion with both an error and a result
	ReasonValue     Reason = "value"      // an argument, item or result that does not fit what was asked for
)

// An Error is what this package refuses. All errors of Cut, Parse, Decode and
// of the handshake functions are of this type.
type Error struct {
	Reason Reason

	// Detail is the text a SignalR server with detailed errors puts behind
	// "InvalidDataException: ".
	Detail string

	// Err is the cause, if another package found it.
	Err error
}

// Error returns the detail behind the package's name.
func (e *Error) Error() string { return "protocol: " + e.Detail }

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrTooLarge) work.
func (e *Error) Is(target error) bool {
	return target == ErrTooLarge && e.Reason == ReasonTooLarge
}

func tooLarge(limit int) error {
	return &Error{Reason: ReasonTooLarge, Detail: "The maximum message size of " + strconv.Itoa(limit) +
		"B was exceeded. The message size can be configured in AddHubOptions."}
}

func malformedJSON() error {
	return &Error{Reason: ReasonMalformed, Detail: "Error reading JSON."}
}

func malformedMessagePack() error {
	return &Error{Reason: ReasonMalformed, Detail: "Error reading MessagePack."}
}

func missing(property string) error {
	return &Error{Reason: ReasonMissing, Detail: "Missing required property '" + property + "'."}
}

func wrongType(property, want string) error {
	return &Error{Reason: ReasonWrongType, Detail: "Expected '" + property + "' to be of type " + want + "."}
}

func nullOrEmpty(what string) error {
	return &Error{Reason: ReasonMissing, Detail: "Null or empty " + what + "."}
}

func readingFailed(field, as string) error {
	return &Error{Reason: ReasonWrongType, Detail: "Reading '" + field + "' as " + as + " failed."}
}

func readingLengthFailed(of, field string) error {
	return &Error{Reason: ReasonWrongType, Detail: "Reading " + of + " length for '" + field + "' failed."}
}

// badValue is the error for a raw value that does not fit a Go type.
func badValue(format string, args ...any) error {
	return &Error{Reason: ReasonValue, Detail: fmt.Sprintf(format, args...)}
}
