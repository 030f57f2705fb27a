package protocol

import (
	"bytes"
	"strconv"
)

// recordSeparator ends every JSON record and every handshake record
// (HubProtocol.md, "JSON Encoding"). JSON never contains it unescaped.
const recordSeparator = 0x1e

// JSON is the hub protocol "json": UTF-8 text, each record an object ended by
// the byte 0x1E. The zero value is ready for use.
//
// It reads strictly: valid UTF-8, no comments, no trailing commas, at most 64
// levels of nesting. Members may come in any order, unknown ones are ignored,
// and of repeated ones the last wins.
type JSON struct{}

var _ Protocol = JSON{}

// Name returns "json".
func (JSON) Name() string { return "json" }

// Binary returns false: its records are text.
func (JSON) Binary() bool { return false }

// Cut finds the first record in b; see Protocol.
func (JSON) Cut(b []byte, limit int) (body []byte, size int, err error) {
	window := b
	if limit > 0 && len(window) > limit {
		window = window[:limit]
	}
	if i := bytes.IndexByte(window, recordSeparator); i >= 0 {
		return b[:i:i], i + 1, nil
	}
	if limit > 0 && len(window) == limit {
		return nil, 0, tooLarge(limit)
	}
	return nil, 0, nil
}

// Parse decodes one record without its separator; see Protocol.
func (JSON) Parse(body []byte, m *Message) error {
	m.Reset()
	i, err := objectStart(body)
	if err != nil {
		return err
	}
	f := jsonFields{body: body}
	if end := f.scan(i, m); end < 0 || skipSpace(body, end) != len(body) {
		return malformedJSON()
	}
	if !f.has(memberType) {
		return missing("type")
	}
	n, ok := parseInteger(f.raw(memberType), 32)
	if !ok {
		return wrongType("type", "Number")
	}
	return f.finish(n, m)
}

// objectStart returns the index of the brace that opens the record.
func objectStart(b []byte) (int, error) {
	i := skipSpace(b, 0)
	if i < len(b) && b[i] == '{' {
		return i, nil
	}
	if kind := tokenKind(b, i); kind != "" {
		return 0, &Error{Reason: ReasonNotRecord, Detail: "Unexpected JSON Token Type '" + kind + "'. Expected a JSON Object."}
	}
	return 0, malformedJSON()
}

// tokenKind names the first token as System.Text.Json does; "" means that
// there is none.
func tokenKind(b []byte, i int) string {
	if i >= len(b) {
		return ""
	}
	if b[i] == '[' {
		return "Array"
	}
	if scanValue(b, i, 0) < 0 {
		return ""
	}
	switch b[i] {
	case '"':
		return "String"
	case 't':
		return "True"
	case 'f':
		return "False"
	case 'n':
		return "Null"
	}
	return "Number"
}

// parseInteger reads a number without fraction and exponent.
func parseInteger(raw []byte, bits int) (int64, bool) {
	if len(raw) == 1 && '0' <= raw[0] && raw[0] <= '9' {
		return int64(raw[0] - '0'), true
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	return n, err == nil
}
