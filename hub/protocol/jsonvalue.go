package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// AppendValue appends v as JSON; see Protocol. Values without a fast path are
// encoded by encoding/json without its HTML escapes.
func (p JSON) AppendValue(dst []byte, v any) ([]byte, error) {
	if out, known, err := appendJSON(dst, v); known {
		return out, err
	}
	return encodeComposedJSON(dst, v)
}

// Decode reads the JSON value raw into what v points to; see Protocol. Structs
// and other composed types follow the rules of encoding/json: member names
// match without case, unknown ones are ignored. Two rules are added: null is
// refused for numbers, booleans and times in them as well (not for named types
// like type Level int, which it leaves as they are), and integers in places of
// type any become int64.
func (p JSON) Decode(raw []byte, v any) error {
	if known, err := decodeJSON(raw, v); known {
		return err
	}
	return decodeComposedJSON(raw, v)
}

// appendJSON appends values that need no reflection. It keeps no reference to
// v, so that calling it does not move v to the heap.
func appendJSON(dst []byte, v any) (_ []byte, known bool, err error) {
	switch v := v.(type) {
	case nil:
		dst = append(dst, "null"...)
	case string:
		dst = appendQuoted(dst, v)
	case bool:
		dst = strconv.AppendBool(dst, v)
	case int:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int8:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int16:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int32:
		dst = strconv.AppendInt(dst, int64(v), 10)
	case int64:
		dst = strconv.AppendInt(dst, v, 10)
	case uint:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint8:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint16:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint32:
		dst = strconv.AppendUint(dst, uint64(v), 10)
	case uint64:
		dst = strconv.AppendUint(dst, v, 10)
	case float32:
		dst, err = appendFinite(dst, float64(v), 32)
	case float64:
		dst, err = appendFinite(dst, v, 64)
	case []byte:
		if v == nil {
			return append(dst, "null"...), true, nil
		}
		dst = appendBase64(dst, v)
	case time.Time:
		dst, err = appendTimeJSON(dst, v)
	case json.RawMessage:
		dst, err = rawValue(v).appendTo(dst, encodingJSON)
	case Value:
		dst, err = v.appendTo(dst, encodingJSON)
	default:
		return dst, false, nil
	}
	return dst, true, err
}

// rawValue is the Value of a raw message, which is null if it is nil.
func rawValue(raw json.RawMessage) Value {
	if raw == nil {
		return Value{}
	}
	return NewValue(JSON{}, raw)
}

func appendFinite(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, badValue("JSON has no NaN and no infinity")
	}
	return appendFloat(dst, f, bits), nil
}

// decodeJSON decodes into types that need no reflection. It keeps no reference
// to v, so that calling it does not move *v to the heap.
func decodeJSON(raw []byte, v any) (known bool, err error) {
	switch v := v.(type) {
	case *string:
		*v, err = jsonString(raw)
	case **string:
		if *v = nil; string(jsonTrimmed(raw)) != "null" {
			var s string
			s, err = jsonString(raw)
			*v = &s
		}
	case *bool:
		*v, err = jsonBool(raw)
	case *int:
		err = jsonInt(raw, v, strconv.IntSize)
	case *int8:
		err = jsonInt(raw, v, 8)
	case *int16:
		err = jsonInt(raw, v, 16)
	case *int32:
		err = jsonInt(raw, v, 32)
	case *int64:
		err = jsonInt(raw, v, 64)
	case *uint:
		err = jsonUint(raw, v, strconv.IntSize)
	case *uint8:
		err = jsonUint(raw, v, 8)
	case *uint16:
		err = jsonUint(raw, v, 16)
	case *uint32:
		err = jsonUint(raw, v, 32)
	case *uint64:
		err = jsonUint(raw, v, 64)
	case *float32:
		err = jsonFloat(raw, v, 32)
	case *float64:
		err = jsonFloat(raw, v, 64)
	case *[]byte:
		*v, err = jsonBytes(raw)
	case *time.Time:
		*v, err = jsonTime(raw)
	case *any:
		*v, err = jsonAny(raw)
	case *map[string]any:
		*v, err = only[map[string]any](jsonAny(raw))
	case *[]any:
		*v, err = only[[]any](jsonAny(raw))
	case *Value:
		*v, err = decodeValue(JSON{}, raw)
	case *[]Value:
		*v, err = decodeValues(JSON{}, raw)
	default:
		return false, nil
	}
	return true, err
}

// jsonTrimmed returns raw without white space around it. Raw values that Parse
// has cut out have none.
func jsonTrimmed(raw []byte) []byte {
	if n := len(raw); n > 0 && raw[0] > ' ' && raw[n-1] > ' ' {
		return raw
	}
	return bytes.Trim(raw, " \t\r\n")
}

// jsonString decodes a string; null is the empty one.
func jsonString(raw []byte) (string, error) {
	text, err := jsonStringText(raw)
	return string(text), err
}

// jsonStringText returns the text of a string, nil for null.
func jsonStringText(raw []byte) ([]byte, error) {
	raw = jsonTrimmed(raw)
	if string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '"' {
		return nil, mismatch("string")
	}
	end, plain := scanString(raw, 0)
	switch {
	case end != len(raw):
		return nil, mismatch("string")
	case plain:
		return raw[1 : end-1], nil
	}
	return appendUnquoted(nil, raw), nil
}

func jsonBool(raw []byte) (bool, error) {
	switch string(jsonTrimmed(raw)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, mismatch("boolean")
}

// jsonNumber returns raw trimmed if it is a number.
func jsonNumber(raw []byte) ([]byte, bool) {
	raw = jsonTrimmed(raw)
	return raw, len(raw) > 0 && scanNumber(raw, 0) == len(raw)
}

func jsonInt[I int | int8 | int16 | int32 | int64](raw []byte, v *I, bits int) error {
	raw, ok := jsonNumber(raw)
	if !ok {
		return mismatch("integer")
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil {
		return misfit(bits, "signed")
	}
	*v = I(n)
	return nil
}

func jsonUint[I uint | uint8 | uint16 | uint32 | uint64](raw []byte, v *I, bits int) error {
	raw, ok := jsonNumber(raw)
	if !ok {
		return mismatch("integer")
	}
	n, err := strconv.ParseUint(string(raw), 10, bits)
	if err != nil {
		return misfit(bits, "unsigned")
	}
	*v = I(n)
	return nil
}

func jsonFloat[F float32 | float64](raw []byte, v *F, bits int) error {
	raw, ok := jsonNumber(raw)
	if !ok {
		return mismatch("number")
	}
	f, err := strconv.ParseFloat(string(raw), bits)
	if err != nil {
		return misfit(bits, "floating-point")
	}
	*v = F(f)
	return nil
}

// jsonBytes decodes a base64 string; null is nil.
func jsonBytes(raw []byte) ([]byte, error) {
	text, err := jsonStringText(raw)
	if err != nil || text == nil {
		return nil, err
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(b, text)
	if err != nil {
		return nil, mismatch("base64 string")
	}
	return b[:n], nil
}

func jsonTime(raw []byte) (t time.Time, err error) {
	text, err := jsonStringText(raw)
	if err != nil || t.UnmarshalText(text) != nil {
		return time.Time{}, mismatch("RFC 3339 time")
	}
	return t, nil
}
