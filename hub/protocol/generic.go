package protocol

import "strconv"

// Decode reads the raw value, encoded by p, into a T. It is strict: a value
// that does not fit T is an *Error with ReasonValue, never a default. Null
// fits strings (as the empty one), pointers, slices, maps, structs, Value and
// any; not numbers, booleans and times. JSON integers must be written without
// fraction and exponent, MessagePack ones as integers, and both lie in the
// range of T. Binary data is base64 in JSON and bin in MessagePack; time.Time
// is an RFC 3339 string in JSON and extension type -1 in MessagePack.
//
// Strings, booleans, numbers, []byte, time.Time, Value, []Value, any, []any
// and map[string]any are decoded without reflection, and without allocating
// anything but the value itself; T's of other types, named ones too, are left
// to p.Decode, which tells where its library is less strict.
func Decode[T any](p Protocol, raw []byte) (T, error) {
	var v T
	if known, err := decodeKnown(p, raw, &v); known {
		return v, err
	}
	return decodeOther[T](p, raw)
}

// decodeOther is apart from Decode so that its variable, which escapes, does
// not make the one in Decode escape.
func decodeOther[T any](p Protocol, raw []byte) (T, error) {
	var v T
	err := p.Decode(raw, &v)
	return v, err
}

func decodeKnown(p Protocol, raw []byte, v any) (known bool, err error) {
	switch p := p.(type) {
	case JSON:
		return decodeJSON(raw, v)
	case MessagePack:
		return decodeMessagePack(p, raw, v)
	}
	return false, nil
}

// Append appends v, encoded by p, to dst. It does what p.AppendValue does
// without boxing strings, booleans, numbers, []byte, time.Time and Value.
func Append[T any](p Protocol, dst []byte, v T) ([]byte, error) {
	var out []byte
	var known bool
	var err error
	switch p.(type) {
	case JSON:
		out, known, err = appendJSON(dst, v)
	case MessagePack:
		out, known, err = appendMessagePack(dst, v)
	}
	if known {
		return out, err
	}
	return appendOther(p, dst, v)
}

// appendOther is apart from Append so that v, which escapes here, does not
// escape there.
func appendOther[T any](p Protocol, dst []byte, v T) ([]byte, error) {
	return p.AppendValue(dst, v)
}

// only narrows what was decoded into any; nil stays nil.
func only[T any](v any, err error) (T, error) {
	t, ok := v.(T)
	if err == nil && v != nil && !ok {
		err = mismatch("object or array as wanted")
	}
	return t, err
}

// mismatch is the error for a value of another type than the wanted one.
func mismatch(want string) error {
	return badValue("a value is no %s", want)
}

// misfit is the error for a number outside of the wanted type.
func misfit(bits int, kind string) error {
	return badValue("a number does not fit %s bits, %s", strconv.Itoa(bits), kind)
}

// splitArray splits a checked raw array; nil and true for null.
func splitArray(p Protocol, raw []byte) (elements [][]byte, ok bool) {
	if encodingOf(p) == encodingJSON {
		return splitJSONArray(raw)
	}
	return splitMessagePackArray(raw)
}
