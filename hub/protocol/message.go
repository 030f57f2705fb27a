package protocol

// A Type is the number of a hub message (HubProtocol.md, "Invocations" ff.).
type Type uint8

// The message types.
const (
	Invocation       Type = 1
	StreamItem       Type = 2
	Completion       Type = 3
	StreamInvocation Type = 4
	CancelInvocation Type = 5
	Ping             Type = 6
	Close            Type = 7
	Ack              Type = 8
	Sequence         Type = 9
)

// A Message is one decoded hub message of any type. Reader loops keep one and
// parse every record into it: all byte slices alias the record and are valid
// as long as it is; nothing is decoded that nobody asked for.
type Message struct {
	Type Type

	// InvocationID of types 1 to 5; empty where there is none.
	InvocationID []byte

	// Target of types 1 and 4: the method's name as the sender spelled it.
	Target []byte

	// Arguments of types 1 and 4, each one raw value in the encoding of the
	// protocol that parsed it.
	Arguments [][]byte

	// StreamIDs of types 1 and 4: uploads that belong to the invocation.
	StreamIDs [][]byte

	// Value is the raw item of type 2 or the raw result of type 3. A
	// Completion without result has HasValue false.
	Value    []byte
	HasValue bool

	// Error of types 3 and 7. HasError tells an empty text from none.
	Error    []byte
	HasError bool

	// AllowReconnect of type 7.
	AllowReconnect bool

	// SequenceID of types 8 and 9.
	SequenceID int64

	// Headers of types 1 to 5, in the order they came.
	Headers []Header
}

// A Header is one name and value of a message's headers.
type Header struct{ Name, Value []byte }

// A Protocol is a hub protocol: how messages are laid out as records. JSON and
// MessagePack are the two there are. Protocols have no state and may be used
// by many goroutines at once.
type Protocol interface {
	// Name is what the handshake calls it: "json" or "messagepack".
	Name() string

	// Binary says whether its records need a binary transfer format.
	Binary() bool

	// Cut finds the first whole record in b: its body (framing removed) and
	// how many bytes of b it took. size 0 means that more bytes are needed.
	// A record of more than limit bytes, framing included, is ErrTooLarge as
	// soon as that is certain; limit 0 means none.
	Cut(b []byte, limit int) (body []byte, size int, err error)

	// Parse decodes one body into m, overwriting all of it. A type number
	// that is not known is no error: m.Type then holds 0. Errors are of
	// type *Error.
	Parse(body []byte, m *Message) error

	// The Append methods append one framed record to dst. Arguments and
	// items may be any values the protocol can encode; a Value is passed on
	// as it is. An error leaves dst as it was.
	AppendInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error)
	AppendStreamInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error)
	AppendStreamItem(dst []byte, id string, item any) ([]byte, error)
	AppendResult(dst []byte, id string, result any) ([]byte, error)
	AppendVoid(dst []byte, id string) []byte
	AppendError(dst []byte, id, text string) []byte
	AppendCancelInvocation(dst []byte, id string) []byte
	AppendPing(dst []byte) []byte
	AppendClose(dst []byte, text string, allowReconnect bool) []byte
	AppendAck(dst []byte, sequenceID int64) []byte
	AppendSequence(dst []byte, sequenceID int64) []byte

	// BeginResult appends the beginning of a Completion with a result. The
	// caller appends exactly one value (see AppendValue) and calls
	// EndResult with the length that dst had before BeginResult.
	BeginResult(dst []byte, id string) []byte
	EndResult(dst []byte, start int) []byte

	// AppendValue appends one value without framing. Decode reads one raw
	// value into what v points to and is strict: a value that does not fit
	// the type is an error, never a default. Prefer the generic Append and
	// Decode functions, which need no reflection for common types.
	AppendValue(dst []byte, v any) ([]byte, error)
	Decode(raw []byte, v any) error
}
