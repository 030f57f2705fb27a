package protocol

import (
	"strconv"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

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

// skipMessagePack returns what follows the value at the beginning of b, unless
// it is broken or nested more than depth levels deep.
func skipMessagePack(b []byte, depth int) (rest []byte, ok bool) {
	var count uint64
	switch msgp.NextType(b) {
	case msgp.ArrayType:
		n, rest, err := msgp.ReadArrayHeaderBytes(b)
		if err != nil || depth == 0 {
			return nil, false
		}
		count, b = uint64(n), rest
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(b)
		if err != nil || depth == 0 {
			return nil, false
		}
		count, b = 2*uint64(n), rest
	default:
		rest, err := msgp.Skip(b)
		return rest, err == nil
	}
	// Each element takes at least one byte, so a lying count ends soon.
	for ; count > 0; count-- {
		if b, ok = skipMessagePack(b, depth-1); !ok {
			return nil, false
		}
	}
	return b, true
}

// elements reads the elements of a record that has been skipped over once, so
// that only their types can be wrong.
type elements struct {
	rest []byte
	left int
}

// next returns the raw next element, nil if there is none.
func (r *elements) next() []byte {
	if r.left == 0 {
		return nil
	}
	r.left--
	raw := r.rest
	r.rest, _ = msgp.Skip(raw)
	size := len(raw) - len(r.rest)
	return raw[:size:size]
}

func (r *elements) integer(field string, bits int) (int64, error) {
	n, _, err := msgp.ReadInt64Bytes(r.next())
	if err != nil || bits == 32 && n != int64(int32(n)) {
		return 0, readingFailed(field, "Int"+strconv.Itoa(bits))
	}
	return n, nil
}

// text reads a string; nil counts as empty where that is allowed.
func (r *elements) text(field string, allowNil bool) (text []byte, isNil bool, err error) {
	raw := r.next()
	if allowNil && msgp.IsNil(raw) {
		return nil, true, nil
	}
	text, _, err = msgp.ReadStringZC(raw)
	if err != nil || !utf8.Valid(text) {
		return nil, false, readingFailed(field, "String")
	}
	return text[:len(text):len(text)], false, nil
}

func (r *elements) headers(m *Message) error {
	count, rest, err := msgp.ReadMapHeaderBytes(r.next())
	if err != nil {
		return readingLengthFailed("map", "headers")
	}
	pairs := elements{rest: rest, left: 2 * int(count)}
	for range count {
		name, _, err := pairs.text("headers.Key", true)
		if err != nil {
			return err
		}
		value, _, err := pairs.text("headers.Value", true)
		if err != nil {
			return err
		}
		if len(name) == 0 || len(value) == 0 {
			return nullOrEmpty("value in header")
		}
		m.Headers = append(m.Headers, Header{Name: name, Value: value})
	}
	return nil
}

// call reads headers and id; of names the type whose id must not be empty, if
// any.
func (r *elements) call(of string, m *Message) (err error) {
	if err = r.headers(m); err != nil {
		return err
	}
	if m.InvocationID, _, err = r.text("invocationId", true); err != nil {
		return err
	}
	if of != "" && len(m.InvocationID) == 0 {
		return nullOrEmpty("invocation ID for " + of + " message")
	}
	return nil
}

func (r *elements) invocation(typ Type, m *Message) (err error) {
	name, of := "Invocation", ""
	if typ == StreamInvocation {
		name, of = "StreamInvocation", "StreamInvocation"
	}
	if err = r.call(of, m); err != nil {
		return err
	}
	if m.Target, _, err = r.text("target", false); err != nil {
		return err
	}
	if len(m.Target) == 0 {
		return nullOrEmpty("target for " + name + " message")
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(r.next())
	if err != nil {
		return readingLengthFailed("array", "arguments")
	}
	args := elements{rest: rest, left: int(count)}
	for range count {
		m.Arguments = append(m.Arguments, args.next())
	}
	if r.left == 0 {
		return nil
	}
	count, rest, err = msgp.ReadArrayHeaderBytes(r.next())
	if err != nil {
		return readingLengthFailed("array", "streamIds")
	}
	ids := elements{rest: rest, left: int(count)}
	for range count {
		id, _, err := ids.text("streamId", true)
		if err != nil {
			return err
		}
		if len(id) == 0 {
			return nullOrEmpty("value in streamIds received")
		}
		m.StreamIDs = append(m.StreamIDs, id)
	}
	return nil
}

func (r *elements) streamItem(m *Message) error {
	if err := r.call("StreamItem", m); err != nil {
		return err
	}
	m.Value = r.next()
	m.HasValue = m.Value != nil
	if !m.HasValue {
		return readingFailed("item", "Object")
	}
	return nil
}

func (r *elements) completion(m *Message) error {
	if err := r.call("Completion", m); err != nil {
		return err
	}
	kind, err := r.integer("resultKind", 32)
	if err != nil {
		return err
	}
	switch kind {
	case kindError:
		m.Error, _, err = r.text("error", false)
		m.HasError = err == nil
		return err
	case kindVoid:
		return nil
	case kindResult:
		m.Value = r.next()
		m.HasValue = m.Value != nil
		if !m.HasValue {
			return readingFailed("result", "Object")
		}
		return nil
	}
	return &Error{Reason: ReasonWrongType, Detail: "Invalid invocation result kind."}
}

func (r *elements) close(m *Message) error {
	text, isNil, err := r.text("error", true)
	if err != nil {
		return err
	}
	m.Error, m.HasError = text, !isNil
	if r.left == 0 {
		return nil
	}
	m.AllowReconnect, _, err = msgp.ReadBoolBytes(r.next())
	if err != nil {
		return readingFailed("allowReconnect", "Boolean")
	}
	return nil
}
