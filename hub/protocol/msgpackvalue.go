package protocol

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// AppendValue appends v as MessagePack; see Protocol. Values without a fast
// path are encoded by the codec library: structs as maps with the keys that
// DotNetNames selects.
func (p MessagePack) AppendValue(dst []byte, v any) ([]byte, error) {
	if out, known, err := appendMessagePack(dst, v); known {
		return out, err
	}
	return encodeMessagePack(dst, p.handle(false), v)
}

// Decode reads the MessagePack value raw into what v points to; see Protocol.
// Structs and other composed types are decoded by the codec library: keys
// match exactly (see DotNetNames), unknown ones are ignored, numbers that do
// not fit are refused, floats without fraction count as integers. Three things
// inside them are not refused: nil leaves the zero value, bin fits strings, and
// an integer beyond int64 in a place of a signed type wraps around.
func (p MessagePack) Decode(raw []byte, v any) error {
	if known, err := decodeMessagePack(p, raw, v); known {
		return err
	}
	if rest, ok := skipMessagePack(raw, maxMessagePackDepth); !ok || len(rest) > 0 {
		return badValue("a value is no messagepack")
	}
	return p.handle(hasHuge(raw)).decode(raw, v)
}

// appendMessagePack appends values that need no reflection. It keeps no
// reference to v, so that calling it does not move v to the heap.
func appendMessagePack(dst []byte, v any) (_ []byte, known bool, err error) {
	switch v := v.(type) {
	case nil:
		dst = msgp.AppendNil(dst)
	case string:
		dst = msgp.AppendString(dst, v)
	case bool:
		dst = msgp.AppendBool(dst, v)
	case int:
		dst = appendInt(dst, int64(v))
	case int8:
		dst = appendInt(dst, int64(v))
	case int16:
		dst = appendInt(dst, int64(v))
	case int32:
		dst = appendInt(dst, int64(v))
	case int64:
		dst = appendInt(dst, v)
	case uint:
		dst = msgp.AppendUint64(dst, uint64(v))
	case uint8:
		dst = msgp.AppendUint64(dst, uint64(v))
	case uint16:
		dst = msgp.AppendUint64(dst, uint64(v))
	case uint32:
		dst = msgp.AppendUint64(dst, uint64(v))
	case uint64:
		dst = msgp.AppendUint64(dst, v)
	case float32:
		dst = msgp.AppendFloat32(dst, v)
	case float64:
		dst = msgp.AppendFloat64(dst, v)
	case []byte:
		if v == nil {
			return msgp.AppendNil(dst), true, nil
		}
		dst = msgp.AppendBytes(dst, v)
	case time.Time:
		dst = appendTime(dst, v)
	case json.RawMessage:
		dst, err = rawValue(v).appendTo(dst, encodingMessagePack)
	case Value:
		dst, err = v.appendTo(dst, encodingMessagePack)
	default:
		return dst, false, nil
	}
	return dst, true, err
}

// appendInt appends n in its shortest form: one of the unsigned ones if it is
// not negative, as .NET and JavaScript write it.
func appendInt(dst []byte, n int64) []byte {
	if n >= 0 {
		return msgp.AppendUint64(dst, uint64(n))
	}
	return msgp.AppendInt64(dst, n)
}

// appendTime appends t as a timestamp, extension type -1, in the shortest of
// its three forms (MessagePack specification, "Timestamp extension type").
func appendTime(dst []byte, t time.Time) []byte {
	sec, nsec := t.Unix(), uint64(t.Nanosecond())
	switch {
	case sec < 0 || sec >= 1<<34:
		dst = append(dst, 0xc7, 12, 0xff)
		dst = binary.BigEndian.AppendUint32(dst, uint32(nsec))
		return binary.BigEndian.AppendUint64(dst, uint64(sec))
	case nsec > 0 || sec > math.MaxUint32:
		dst = append(dst, 0xd7, 0xff)
		return binary.BigEndian.AppendUint64(dst, nsec<<34|uint64(sec))
	}
	dst = append(dst, 0xd6, 0xff)
	return binary.BigEndian.AppendUint32(dst, uint32(sec))
}

// readTime reads a timestamp; any other extension is an error.
func readTime(b []byte) (t time.Time, rest []byte, err error) {
	if !isTimestamp(b) {
		return time.Time{}, nil, mismatch("timestamp")
	}
	t, rest, err = msgp.ReadTimeUTCBytes(b)
	if err != nil {
		return time.Time{}, nil, mismatch("timestamp")
	}
	return t, rest, nil
}

// isTimestamp says whether b begins with extension type -1. msgp knows one
// more type of time, which is its own.
func isTimestamp(b []byte) bool {
	switch {
	case len(b) < 2:
		return false
	case b[0] == 0xd6 || b[0] == 0xd7:
		return b[1] == 0xff
	case b[0] == 0xc7:
		return len(b) > 2 && b[2] == 0xff
	}
	return false
}

// decodeMessagePack decodes into types that need no reflection. It keeps no
// reference to v, so that calling it does not move *v to the heap.
func decodeMessagePack(p MessagePack, raw []byte, v any) (known bool, err error) {
	switch v := v.(type) {
	case *string:
		*v, err = messagePackString(raw)
	case **string:
		if *v = nil; !msgp.IsNil(raw) {
			var s string
			s, err = messagePackString(raw)
			*v = &s
		}
	case *bool:
		*v, err = messagePackBool(raw)
	case *int:
		err = messagePackInt(raw, v, strconv.IntSize)
	case *int8:
		err = messagePackInt(raw, v, 8)
	case *int16:
		err = messagePackInt(raw, v, 16)
	case *int32:
		err = messagePackInt(raw, v, 32)
	case *int64:
		err = messagePackInt(raw, v, 64)
	case *uint:
		err = messagePackUint(raw, v, strconv.IntSize)
	case *uint8:
		err = messagePackUint(raw, v, 8)
	case *uint16:
		err = messagePackUint(raw, v, 16)
	case *uint32:
		err = messagePackUint(raw, v, 32)
	case *uint64:
		err = messagePackUint(raw, v, 64)
	case *float32:
		var f float64
		if f, err = messagePackFloat(raw); err == nil && math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
			err = misfit(32, "floating-point")
		}
		*v = float32(f)
	case *float64:
		*v, err = messagePackFloat(raw)
	case *[]byte:
		*v, err = messagePackBytes(raw)
	case *time.Time:
		var rest []byte
		if *v, rest, err = readTime(raw); err == nil && len(rest) > 0 {
			err = mismatch("timestamp")
		}
	case *json.RawMessage:
		*v, err = appendMessagePackAsJSON(nil, raw)
	case *any:
		*v, err = messagePackAny(raw)
	case *map[string]any:
		*v, err = only[map[string]any](messagePackAny(raw))
	case *[]any:
		*v, err = only[[]any](messagePackAny(raw))
	case *Value:
		*v, err = decodeValue(p, raw)
	case *[]Value:
		*v, err = decodeValues(p, raw)
	default:
		return false, nil
	}
	return true, err
}

// messagePackString decodes a string; nil is the empty one.
func messagePackString(raw []byte) (string, error) {
	if len(raw) == 1 && msgp.IsNil(raw) {
		return "", nil
	}
	s, rest, err := msgp.ReadStringZC(raw)
	if err != nil || len(rest) > 0 || !utf8.Valid(s) {
		return "", mismatch("string")
	}
	return string(s), nil
}

func messagePackBool(raw []byte) (bool, error) {
	b, rest, err := msgp.ReadBoolBytes(raw)
	if err != nil || len(rest) > 0 {
		return false, mismatch("boolean")
	}
	return b, nil
}

func messagePackInt[I int | int8 | int16 | int32 | int64](raw []byte, v *I, bits int) error {
	if t := msgp.NextType(raw); t != msgp.IntType && t != msgp.UintType {
		return mismatch("integer")
	}
	n, rest, err := msgp.ReadInt64Bytes(raw)
	if err != nil || len(rest) > 0 || int64(I(n)) != n {
		return misfit(bits, "signed")
	}
	*v = I(n)
	return nil
}

func messagePackUint[I uint | uint8 | uint16 | uint32 | uint64](raw []byte, v *I, bits int) error {
	if t := msgp.NextType(raw); t != msgp.IntType && t != msgp.UintType {
		return mismatch("integer")
	}
	n, rest, err := msgp.ReadUint64Bytes(raw)
	if err != nil || len(rest) > 0 || uint64(I(n)) != n {
		return misfit(bits, "unsigned")
	}
	*v = I(n)
	return nil
}

// messagePackFloat decodes a float of any width or an integer.
func messagePackFloat(raw []byte) (f float64, err error) {
	var rest []byte
	switch msgp.NextType(raw) {
	case msgp.Float32Type, msgp.Float64Type:
		f, rest, err = msgp.ReadFloat64Bytes(raw)
	case msgp.IntType, msgp.UintType:
		var n number
		n, rest, err = readInteger(raw)
		f = float64(n.integer)
		if n.kind == isUint {
			f = float64(n.unsigned)
		}
	default:
		return 0, mismatch("number")
	}
	if err != nil || len(rest) > 0 {
		return 0, mismatch("number")
	}
	return f, nil
}

// messagePackBytes decodes binary data; nil is nil.
func messagePackBytes(raw []byte) ([]byte, error) {
	if len(raw) == 1 && msgp.IsNil(raw) {
		return nil, nil
	}
	b, rest, err := msgp.ReadBytesBytes(raw, []byte{})
	if err != nil || len(rest) > 0 {
		return nil, mismatch("binary data")
	}
	return b, nil
}
