package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// separator ends every JSON record.
const separator = "\x1e"

// A dialect is a hub protocol as the tests write it. Both share one notation,
// that of JSON, so that one test speaks either; what is only in one of them is
// written as bytes.
type dialect interface {
	// name is what the handshake calls it.
	name() string

	// opcode is that of a message with its records.
	opcode() byte

	// encode returns the record with its framing. It panics on a notation
	// that is none: that is a mistake in the test.
	encode(record string) []byte

	// decode returns the first record of b in the notation, and what follows.
	decode(b []byte) (record string, rest []byte, err error)
}

// dialects are the two hub protocols.
func dialects() []dialect { return []dialect{jsonDialect{}, packDialect{}} }

var errPartial = errors.New("part of a record")

// jsonDialect is the protocol "json": the notation is what it has on the wire.
type jsonDialect struct{}

func (jsonDialect) name() string           { return "json" }
func (jsonDialect) opcode() byte           { return opText }
func (jsonDialect) encode(r string) []byte { return []byte(r + separator) }

func (jsonDialect) decode(b []byte) (string, []byte, error) {
	record, rest, whole := bytes.Cut(b, []byte(separator))
	if !whole {
		return "", nil, errPartial
	}
	return string(record), rest, nil
}

// packDialect is the protocol "messagepack", with the layouts that the official
// server writes and clients may rely on to the element.
type packDialect struct{}

func (packDialect) name() string { return "messagepack" }
func (packDialect) opcode() byte { return opBinary }

func (packDialect) encode(record string) []byte {
	in := json.NewDecoder(strings.NewReader(record))
	in.UseNumber()
	var m map[string]any
	if err := in.Decode(&m); err != nil {
		panic(fmt.Sprintf("%s: %v", record, err))
	}
	orNil := func(name string) any { return m[name] }
	list := []any{m["type"], map[string]any{}, orNil("invocationId")}
	switch fmt.Sprint(m["type"]) {
	case "1", "4":
		list = append(list, m["target"], m["arguments"])
		if ids, given := m["streamIds"]; given {
			list = append(list, ids)
		}
	case "2":
		list = append(list, m["item"])
	case "3":
		if text, failed := m["error"]; failed {
			list = append(list, json.Number("1"), text)
		} else if result, given := m["result"]; given {
			list = append(list, json.Number("3"), result)
		} else {
			list = append(list, json.Number("2"))
		}
	case "5":
	case "7":
		list = []any{m["type"], orNil("error")}
	default:
		list = []any{m["type"]}
	}
	return packed(packValue(nil, list))
}

// packed puts the length in front of a body.
func packed(body []byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// packValue appends a value of the notation.
func packValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case bool:
		return msgp.AppendBool(b, v)
	case string:
		return msgp.AppendString(b, v)
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil && n < 0 {
			return msgp.AppendInt64(b, n)
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return msgp.AppendUint64(b, n)
		}
		f, _ := v.Float64()
		return msgp.AppendFloat64(b, f)
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, item := range v {
			b = packValue(b, item)
		}
		return b
	case map[string]any:
		b = msgp.AppendMapHeader(b, uint32(len(v)))
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			b = packValue(msgp.AppendString(b, name), v[name])
		}
		return b
	}
	panic(fmt.Sprintf("no notation: %T", v))
}

func (packDialect) decode(b []byte) (string, []byte, error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) < size {
		return "", nil, errPartial
	}
	body, rest := b[n:n+int(size)], b[n+int(size):]
	var items []string
	count, body, err := msgp.ReadArrayHeaderBytes(body)
	for i := uint32(0); i < count && err == nil; i++ {
		var item []byte
		item, body, err = unpackValue(nil, body)
		items = append(items, string(item))
	}
	if err != nil || len(body) > 0 {
		return "", nil, fmt.Errorf("not one array: % x: %v", b, err)
	}
	record, err := unpackRecord(items)
	return record, rest, err
}

// unpackRecord lays a record out as the official JSON encoder does. Only the
// layouts that the official server writes are records.
func unpackRecord(items []string) (string, error) {
	id := func() string {
		if items[2] == "null" {
			return ""
		}
		return `"invocationId":` + items[2] + `,`
	}
	is := func(typ string, size int) bool {
		return items[0] == typ && len(items) == size && (size < 3 || typ == "7" || items[1] == "{}")
	}
	switch {
	case len(items) == 0:
	case is("1", 6) && items[5] == "[]":
		return `{"type":1,` + id() + `"target":` + items[3] + `,"arguments":` + items[4] + `}`, nil
	case is("3", 5) && items[3] == "1":
		return `{"type":3,` + id() + `"error":` + items[4] + `}`, nil
	case is("3", 5) && items[3] == "3":
		return `{"type":3,` + id() + `"result":` + items[4] + `}`, nil
	case is("6", 1):
		return `{"type":6}`, nil
	case is("7", 3):
		record := `{"type":7`
		if items[1] != "null" {
			record += `,"error":` + items[1]
		}
		if items[2] == "true" {
			record += `,"allowReconnect":true`
		}
		return record + `}`, nil
	}
	return "", fmt.Errorf("a layout the official server does not write: %q", items)
}

// unpackValue appends the value at the beginning of b in the notation. Floats
// without a fraction are marked by ".0", so that they are no integers.
func unpackValue(out, b []byte) ([]byte, []byte, error) {
	switch msgp.NextType(b) {
	case msgp.NilType:
		return append(out, "null"...), b[1:], nil
	case msgp.BoolType:
		v, rest, err := msgp.ReadBoolBytes(b)
		return strconv.AppendBool(out, v), rest, err
	case msgp.IntType:
		v, rest, err := msgp.ReadInt64Bytes(b)
		return strconv.AppendInt(out, v, 10), rest, err
	case msgp.UintType:
		v, rest, err := msgp.ReadUint64Bytes(b)
		return strconv.AppendUint(out, v, 10), rest, err
	case msgp.Float64Type:
		v, rest, err := msgp.ReadFloat64Bytes(b)
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".eN") {
			text += ".0"
		}
		return append(out, text...), rest, err
	case msgp.StrType:
		v, rest, err := msgp.ReadStringBytes(b)
		return append(out, quoted(v)...), rest, err
	case msgp.BinType:
		v, rest, err := msgp.ReadBytesBytes(b, nil)
		return append(out, `{"$bin":"`+hex.EncodeToString(v)+`"}`...), rest, err
	case msgp.ArrayType:
		count, b, err := msgp.ReadArrayHeaderBytes(b)
		return unpackItems(append(out, '['), b, count, false, ']', err)
	case msgp.MapType:
		count, b, err := msgp.ReadMapHeaderBytes(b)
		return unpackItems(append(out, '{'), b, 2*count, true, '}', err)
	}
	return out, nil, fmt.Errorf("no notation for % x", b)
}

func unpackItems(out, b []byte, count uint32, pairs bool, end byte, err error) ([]byte, []byte, error) {
	for i := uint32(0); i < count && err == nil; i++ {
		switch {
		case i > 0 && pairs && i%2 == 1:
			out = append(out, ':')
		case i > 0:
			out = append(out, ',')
		}
		out, b, err = unpackValue(out, b)
	}
	return append(out, end), b, err
}

// quoted is s as the official server writes it in JSON, as far as tests go:
// what HTML minds stays as it is.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
