package protocol

import "github.com/tinylib/msgp/msgp"

const (
	maxPrefix           = 5         // bytes of a length prefix
	maxBody             = 1<<31 - 1 // largest length it may hold
	maxMessagePackDepth = 64        // arrays and maps around a value, the record's own included
)

// MessagePack is the hub protocol "messagepack": each record a MessagePack
// array behind its length as a varint. The zero value is ready for use.
//
// It reads any width of any value and ignores elements behind those it knows.
// More than 64 levels of nesting and text that is not UTF-8 are refused.
type MessagePack struct {
	// DotNetNames makes the Go names of struct fields their keys, as .NET
	// writes its member names, instead of the json tags. A msgpack tag wins
	// in either case. It is for hubs shared with .NET servers.
	DotNetNames bool
}

var _ Protocol = MessagePack{}

// Name returns "messagepack".
func (MessagePack) Name() string { return "messagepack" }

// Binary returns true.
func (MessagePack) Binary() bool { return true }

// Cut finds the first record in b; see Protocol. Nothing is allocated for the
// length that the prefix claims.
func (MessagePack) Cut(b []byte, limit int) (body []byte, size int, err error) {
	var n uint64
	for i := range maxPrefix {
		if limit > 0 && i >= limit {
			return nil, 0, tooLarge(limit)
		}
		if i >= len(b) {
			return nil, 0, nil
		}
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i]&0x80 != 0 {
			continue
		}
		if n > maxBody {
			break
		}
		head := i + 1
		switch {
		case limit > 0 && n > uint64(limit-head):
			return nil, 0, tooLarge(limit)
		case n > uint64(len(b)-head):
			return nil, 0, nil
		}
		size = head + int(n)
		return b[head:size:size], size, nil
	}
	return nil, 0, &Error{Reason: ReasonFraming, Detail: "Messages over 2GB in size are not supported."}
}

// Parse decodes one record without its length; see Protocol.
func (MessagePack) Parse(body []byte, m *Message) error {
	m.Reset()
	if msgp.NextType(body) != msgp.ArrayType {
		return &Error{Reason: ReasonNotRecord, Detail: "Reading array length for 'message' failed."}
	}
	// From here on no length in the body can lie.
	if rest, ok := skipMessagePack(body, maxMessagePackDepth); !ok || len(rest) > 0 {
		return malformedMessagePack()
	}
	count, rest, _ := msgp.ReadArrayHeaderBytes(body)
	r := elements{rest: rest, left: int(count)}
	typ, err := r.integer("messageType", 32)
	if err != nil {
		return err
	}
	switch typ {
	case int64(Invocation), int64(StreamInvocation):
		err = r.invocation(Type(typ), m)
	case int64(StreamItem):
		err = r.streamItem(m)
	case int64(Completion):
		err = r.completion(m)
	case int64(CancelInvocation):
		err = r.call("CancelInvocation", m)
	case int64(Ping):
	case int64(Close):
		err = r.close(m)
	case int64(Ack), int64(Sequence):
		m.SequenceID, err = r.integer("sequenceId", 64)
	default:
		typ = 0
	}
	if err == nil {
		m.Type = Type(typ)
	}
	return err
}
