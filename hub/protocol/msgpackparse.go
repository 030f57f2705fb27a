package protocol

import (
	"strconv"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// skipMessagePack returns what follows the value at the beginning of b, unless
// it is broken or nested more than depth levels deep.
func skipMessagePack(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	var count uint64
	switch c := b[0]; {
	case c < 0x80 || c >= 0xe0: // integer of one byte
		return b[1:], true
	case 0xa0 <= c && c < 0xc0: // short string
		size := 1 + int(c&0x1f)
		if len(b) < size {
			return nil, false
		}
		return b[size:], true
	case c < 0x90 || c == 0xde || c == 0xdf:
		n, after, err := msgp.ReadMapHeaderBytes(b)
		if err != nil || depth == 0 {
			return nil, false
		}
		count, b = 2*uint64(n), after
	case c < 0xa0 || c == 0xdc || c == 0xdd:
		n, after, err := msgp.ReadArrayHeaderBytes(b)
		if err != nil || depth == 0 {
			return nil, false
		}
		count, b = uint64(n), after
	default:
		after, err := msgp.Skip(b)
		return after, err == nil
	}
	// Each element takes at least one byte, so a lying count ends soon.
	for ; count > 0; count-- {
		if b, ok = skipMessagePack(b, depth-1); !ok {
			return nil, false
		}
	}
	return b, true
}

// elements reads the elements of an array that has been skipped over once, so
// that only their types and their number can be wrong.
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
	r.rest, _ = skipMessagePack(raw, maxMessagePackDepth)
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

// text reads a string; nil is none, where that is allowed.
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

// array enters the next element, an array. The caller reads all of its
// elements and then leaves it.
func (r *elements) array(field string) (elements, error) {
	if r.left > 0 {
		if count, rest, err := msgp.ReadArrayHeaderBytes(r.rest); err == nil {
			return elements{rest: rest, left: int(count)}, nil
		}
	}
	return elements{}, readingLengthFailed("array", field)
}

// leave goes on behind an element that has been entered and read.
func (r *elements) leave(inner elements) {
	r.left--
	r.rest = inner.rest
}

func (r *elements) headers(m *Message) error {
	if r.left == 0 {
		return readingLengthFailed("map", "headers")
	}
	count, rest, err := msgp.ReadMapHeaderBytes(r.rest)
	if err != nil {
		return readingLengthFailed("map", "headers")
	}
	pairs := elements{rest: rest, left: 2 * int(count)}
	for pairs.left > 0 {
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
	r.leave(pairs)
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
	args, err := r.array("arguments")
	if err != nil {
		return err
	}
	for args.left > 0 {
		m.Arguments = append(m.Arguments, args.next())
	}
	r.leave(args)
	if r.left == 0 {
		return nil
	}
	return r.streamIDs(m)
}

func (r *elements) streamIDs(m *Message) error {
	ids, err := r.array("streamIds")
	if err != nil {
		return err
	}
	for ids.left > 0 {
		id, _, err := ids.text("streamId", true)
		if err != nil {
			return err
		}
		if len(id) == 0 {
			return nullOrEmpty("value in streamIds received")
		}
		m.StreamIDs = append(m.StreamIDs, id)
	}
	r.leave(ids)
	return nil
}

func (r *elements) streamItem(m *Message) error {
	if err := r.call("StreamItem", m); err != nil {
		return err
	}
	return r.value("item", m)
}

func (r *elements) value(field string, m *Message) error {
	if m.Value = r.next(); m.Value == nil {
		return readingFailed(field, "Object")
	}
	m.HasValue = true
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
		return r.value("result", m)
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
