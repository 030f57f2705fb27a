package protocol

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// Transcoding keeps integers integers in both directions, up to the full range
// of int64 and uint64; larger ones, and numbers with a fraction or an
// exponent, are float64. Binary data becomes a base64 string, a timestamp an
// RFC 3339 string in UTC, NaN and the infinities null, and map keys that are
// integers or booleans their text. There is no way back from these: a string
// stays a string. Nesting is limited as it is for reading.

// appendJSONAsMessagePack appends the JSON value raw as MessagePack.
func appendJSONAsMessagePack(dst, raw []byte) ([]byte, error) {
	if !validJSON(raw) {
		return dst, badValue("a value is no json")
	}
	start := len(dst)
	dst, _, err := transcodeJSON(dst, raw, skipSpace(raw, 0))
	if err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// transcodeJSON appends the scanned value at b[i] and returns the index behind
// it.
func transcodeJSON(dst, b []byte, i int) ([]byte, int, error) {
	switch b[i] {
	case '"':
		end, plain := scanString(b, i)
		if plain {
			return msgp.AppendStringFromBytes(dst, b[i+1:end-1]), end, nil
		}
		return msgp.AppendStringFromBytes(dst, appendUnquoted(nil, b[i:end])), end, nil
	case '{':
		return transcodeJSONObject(dst, b, i)
	case '[':
		return transcodeJSONArray(dst, b, i)
	case 't':
		return msgp.AppendBool(dst, true), i + len("true"), nil
	case 'f':
		return msgp.AppendBool(dst, false), i + len("false"), nil
	case 'n':
		return msgp.AppendNil(dst), i + len("null"), nil
	}
	end := scanNumber(b, i)
	n, err := parseNumber(b[i:end])
	if err != nil {
		return dst, end, err
	}
	return n.appendMessagePack(dst), end, nil
}

func transcodeJSONArray(dst, b []byte, i int) (_ []byte, _ int, err error) {
	start := len(dst)
	dst = append(dst, 0) // place of a short header
	count := 0
	i = skipSpace(b, i+1)
	for more := b[i] != ']'; more; count++ {
		if dst, i, err = transcodeJSON(dst, b, i); err != nil {
			return dst, i, err
		}
		i, more = scanNext(b, i, ']')
	}
	if count == 0 {
		i++
	}
	var header [5]byte
	return slices.Replace(dst, start, start+1, msgp.AppendArrayHeader(header[:0], uint32(count))...), i, nil
}

func transcodeJSONObject(dst, b []byte, i int) (_ []byte, _ int, err error) {
	start := len(dst)
	dst = append(dst, 0) // place of a short header
	count := 0
	i = skipSpace(b, i+1)
	for more := b[i] != '}'; more; count++ {
		if dst, i, err = transcodeJSON(dst, b, i); err != nil {
			return dst, i, err
		}
		if dst, i, err = transcodeJSON(dst, b, scanColon(b, i)); err != nil {
			return dst, i, err
		}
		i, more = scanNext(b, i, '}')
	}
	if count == 0 {
		i++
	}
	var header [5]byte
	return slices.Replace(dst, start, start+1, msgp.AppendMapHeader(header[:0], uint32(count))...), i, nil
}

// appendMessagePackAsJSON appends the MessagePack value raw as JSON.
func appendMessagePackAsJSON(dst, raw []byte) ([]byte, error) {
	if rest, ok := skipMessagePack(raw, maxMessagePackDepth); !ok || len(rest) > 0 {
		return dst, badValue("a value is no messagepack")
	}
	start := len(dst)
	dst, _, err := transcodeMessagePack(dst, raw)
	if err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// transcodeMessagePack appends the value at the beginning of b, which has been
// skipped over once, and returns what follows it.
func transcodeMessagePack(dst, b []byte) ([]byte, []byte, error) {
	switch msgp.NextType(b) {
	case msgp.NilType:
		return append(dst, "null"...), b[1:], nil
	case msgp.BoolType:
		v, rest, err := msgp.ReadBoolBytes(b)
		return strconv.AppendBool(dst, v), rest, err
	case msgp.IntType, msgp.UintType:
		n, rest, err := readInteger(b)
		return n.appendJSON(dst), rest, err
	case msgp.Float32Type:
		f, rest, err := msgp.ReadFloat32Bytes(b)
		return appendFloatOrNull(dst, float64(f), 32), rest, err
	case msgp.Float64Type:
		f, rest, err := msgp.ReadFloat64Bytes(b)
		return appendFloatOrNull(dst, f, 64), rest, err
	case msgp.StrType:
		s, rest, err := msgp.ReadStringZC(b)
		if err == nil && !utf8.Valid(s) {
			err = badValue("a string is no UTF-8")
		}
		return appendQuoted(dst, s), rest, err
	case msgp.BinType:
		v, rest, err := msgp.ReadBytesZC(b)
		return appendBase64(dst, v), rest, err
	case msgp.ArrayType:
		return transcodeMessagePackArray(dst, b)
	case msgp.MapType:
		return transcodeMessagePackMap(dst, b)
	}
	t, rest, err := readTime(b)
	if err != nil {
		return dst, nil, err
	}
	dst, err = appendTimeJSON(dst, t)
	return dst, rest, err
}

func transcodeMessagePackArray(dst, b []byte) ([]byte, []byte, error) {
	count, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return dst, nil, err
	}
	dst = append(dst, '[')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, b, err = transcodeMessagePack(dst, b); err != nil {
			return dst, nil, err
		}
	}
	return append(dst, ']'), b, nil
}

func transcodeMessagePackMap(dst, b []byte) ([]byte, []byte, error) {
	count, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return dst, nil, err
	}
	dst = append(dst, '{')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return dst, nil, err
		}
		dst = append(appendQuoted(dst, key), ':')
		if dst, b, err = transcodeMessagePack(dst, b); err != nil {
			return dst, nil, err
		}
	}
	return append(dst, '}'), b, nil
}

// readKey reads a map's key as text: a string, an integer or a boolean.
func readKey(b []byte) (key, rest []byte, err error) {
	switch msgp.NextType(b) {
	case msgp.StrType:
		key, rest, err = msgp.ReadStringZC(b)
		if err == nil && !utf8.Valid(key) {
			err = badValue("a map's key is no UTF-8")
		}
		return key, rest, err
	case msgp.IntType, msgp.UintType:
		n, rest, err := readInteger(b)
		return n.appendJSON(nil), rest, err
	case msgp.BoolType:
		v, rest, err := msgp.ReadBoolBytes(b)
		return strconv.AppendBool(nil, v), rest, err
	}
	return nil, nil, badValue("a map's key is neither string nor integer nor boolean")
}
