package protocol

import (
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// messagePackAny decodes raw into nil, bool, string, int64 (uint64 beyond),
// float64, []byte, time.Time, []any or map[string]any.
func messagePackAny(raw []byte) (any, error) {
	if rest, ok := skipMessagePack(raw, maxMessagePackDepth); !ok || len(rest) > 0 {
		return nil, badValue("a value is no messagepack")
	}
	v, _, err := anyFromMessagePack(raw)
	return v, err
}

// anyFromMessagePack decodes the value at the beginning of b, which has been
// skipped over once, and returns what follows it.
func anyFromMessagePack(b []byte) (any, []byte, error) {
	switch msgp.NextType(b) {
	case msgp.NilType:
		return nil, b[1:], nil
	case msgp.BoolType:
		v, rest, err := msgp.ReadBoolBytes(b)
		return v, rest, err
	case msgp.IntType, msgp.UintType:
		n, rest, err := readInteger(b)
		return n.value(), rest, err
	case msgp.Float32Type, msgp.Float64Type:
		f, rest, err := msgp.ReadFloat64Bytes(b)
		return f, rest, err
	case msgp.StrType:
		s, rest, err := msgp.ReadStringZC(b)
		if err == nil && !utf8.Valid(s) {
			err = mismatch("string")
		}
		return string(s), rest, err
	case msgp.BinType:
		v, rest, err := msgp.ReadBytesBytes(b, []byte{})
		return v, rest, err
	case msgp.ArrayType:
		return sliceFromMessagePack(b)
	case msgp.MapType:
		return mapFromMessagePack(b)
	}
	t, rest, err := readTime(b)
	return t, rest, err
}

func sliceFromMessagePack(b []byte) (any, []byte, error) {
	count, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, nil, err
	}
	s := make([]any, count)
	for i := range s {
		if s[i], b, err = anyFromMessagePack(b); err != nil {
			return nil, nil, err
		}
	}
	return s, b, nil
}

func mapFromMessagePack(b []byte) (any, []byte, error) {
	count, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return nil, nil, err
	}
	m := make(map[string]any, count)
	for range count {
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return nil, nil, err
		}
		if m[string(key)], b, err = anyFromMessagePack(b); err != nil {
			return nil, nil, err
		}
	}
	return m, b, nil
}

// splitMessagePackArray splits the array raw, which has been skipped over
// once; nil and true for nil.
func splitMessagePackArray(raw []byte) (elements [][]byte, ok bool) {
	if msgp.IsNil(raw) {
		return nil, true
	}
	count, b, err := msgp.ReadArrayHeaderBytes(raw)
	if err != nil {
		return nil, false
	}
	elements = make([][]byte, count)
	for i := range elements {
		rest, err := msgp.Skip(b)
		if err != nil {
			return nil, false
		}
		size := len(b) - len(rest)
		elements[i], b = b[:size:size], rest
	}
	return elements, true
}
