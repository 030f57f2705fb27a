package protocol

import (
	"bytes"

	"github.com/ugorji/go/codec"
)

// A Value is one value in the encoding of a protocol, not decoded. It can be
// a parameter and a result of hub methods, an element of a slice and a field
// of a struct: Decode copies the raw bytes into it, and the Append functions
// write them as they are to receivers of the same protocol and transcode them
// for those of the other. The zero Value is null.
//
// A Value is immutable and may be used by many goroutines at once.
type Value struct {
	p       Protocol
	raw     []byte
	checked bool // raw is known to be one whole value
}

// NewValue returns the value raw, encoded by p. raw is not copied and must not
// be changed afterwards. Whether it is one whole value is checked when it is
// appended to something.
func NewValue(p Protocol, raw []byte) Value {
	return Value{p: p, raw: raw}
}

// Raw returns the encoded value, nil for the zero Value. It must not be
// changed.
func (v Value) Raw() []byte { return v.raw }

// Protocol returns the protocol in whose encoding Raw is, nil for the zero
// Value.
func (v Value) Protocol() Protocol { return v.p }

// IsZero says whether v is the zero Value.
func (v Value) IsZero() bool { return v.p == nil }

// Clone returns v with its own copy of the raw bytes.
func (v Value) Clone() Value {
	v.raw = bytes.Clone(v.raw)
	return v
}

// String returns v as JSON, or why that is not possible. It is for people.
func (v Value) String() string {
	b, err := v.appendTo(nil, encodingJSON)
	if err != nil {
		return "!(" + err.Error() + ")"
	}
	return string(b)
}

// MarshalJSON returns v as JSON.
func (v Value) MarshalJSON() ([]byte, error) {
	return v.appendTo(nil, encodingJSON)
}

// UnmarshalJSON makes v a copy of the JSON value b.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = NewValue(JSON{}, bytes.Clone(b))
	return nil
}

// CodecEncodeSelf writes v as MessagePack. The codec library calls it for
// values nested in others.
func (v Value) CodecEncodeSelf(e *codec.Encoder) {
	b, err := v.appendTo(nil, encodingMessagePack)
	if err != nil {
		panic(err) // as codec.Selfer wants it; Encode returns it
	}
	e.MustEncode(codec.Raw(b))
}

// CodecDecodeSelf makes v a copy of the next MessagePack value.
func (v *Value) CodecDecodeSelf(d *codec.Decoder) {
	var raw codec.Raw
	d.MustDecode(&raw)
	*v = NewValue(MessagePack{}, raw)
}

// An encoding is how a protocol writes values.
type encoding uint8

const (
	encodingUnknown encoding = iota
	encodingJSON
	encodingMessagePack
)

func encodingOf(p Protocol) encoding {
	switch p.(type) {
	case JSON:
		return encodingJSON
	case MessagePack:
		return encodingMessagePack
	}
	switch p.Name() {
	case JSON{}.Name():
		return encodingJSON
	case MessagePack{}.Name():
		return encodingMessagePack
	}
	return encodingUnknown
}

// appendTo appends v in the encoding to.
func (v Value) appendTo(dst []byte, to encoding) ([]byte, error) {
	if v.p == nil {
		if to == encodingJSON {
			return append(dst, "null"...), nil
		}
		return append(dst, 0xc0), nil
	}
	switch from := encodingOf(v.p); {
	case from == encodingJSON && to == encodingMessagePack:
		return appendJSONAsMessagePack(dst, v.raw)
	case from == encodingMessagePack && to == encodingJSON:
		return appendMessagePackAsJSON(dst, v.raw)
	case from != to:
		return dst, badValue("a value of protocol %q cannot be transcoded", v.p.Name())
	case !v.checked && !v.valid():
		return dst, badValue("a value is no %s", v.p.Name())
	}
	return append(dst, v.raw...), nil
}

// valid says whether raw is one whole value.
func (v Value) valid() bool {
	if encodingOf(v.p) == encodingJSON {
		return validJSON(v.raw)
	}
	rest, ok := skipMessagePack(v.raw, maxMessagePackDepth)
	return ok && len(rest) == 0
}

// decodeValue makes a Value of a copy of raw.
func decodeValue(p Protocol, raw []byte) (Value, error) {
	v := Value{p: p, raw: raw, checked: true}
	if !v.valid() {
		return Value{}, badValue("a value is no %s", p.Name())
	}
	return v.Clone(), nil
}

// decodeValues makes Values of the elements of a copy of the raw array; nil
// for null.
func decodeValues(p Protocol, raw []byte) ([]Value, error) {
	whole, err := decodeValue(p, raw)
	if err != nil {
		return nil, err
	}
	elements, isArray := splitArray(p, whole.raw)
	if !isArray {
		return nil, mismatch("array")
	}
	if elements == nil {
		return nil, nil
	}
	values := make([]Value, len(elements))
	for i, e := range elements {
		values[i] = Value{p: p, raw: e, checked: true}
	}
	return values, nil
}
