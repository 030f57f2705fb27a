package dialect

// A Reason says what is wrong with an envelope.
type Reason uint8

// The reasons.
const (
	// Truncated: a value or a declared length goes beyond the end.
	Truncated Reason = iota + 1
	// TooFewItems: the array is shorter than its kind of envelope demands.
	TooFewItems
	// WrongType: a value has another MessagePack type than it must have. A
	// nil where a string is mandatory is one case of it.
	WrongType
	// OutOfRange: an integer does not fit its field.
	OutOfRange
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case Truncated:
		return "truncated"
	case TooFewItems:
		return "too few items"
	case WrongType:
		return "wrong type"
	case OutOfRange:
		return "out of range"
	}
	return "unknown reason"
}

// An Error says why an envelope could not be parsed. It is the type of every
// error of this package.
type Error struct {
	// Envelope is "invocation", "group command", "ack" or "completion".
	Envelope string

	// Item is the part that is wrong, such as "excluded id".
	Item string

	Reason Reason
}

// Error implements error.
func (e *Error) Error() string {
	return "dialect: " + e.Envelope + ": " + e.Item + ": " + e.Reason.String()
}
