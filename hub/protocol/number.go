package protocol

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// A number is an int64, a uint64 beyond that, or a float64.
type number struct {
	kind     numberKind
	integer  int64
	unsigned uint64
	float    float64
}

type numberKind uint8

const (
	isInt numberKind = iota
	isUint
	isFloat
)

// parseNumber reads a scanned JSON number.
func parseNumber(raw []byte) (number, error) {
	if isInteger(raw) {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return number{kind: isInt, integer: n}, nil
		}
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
			return number{kind: isUint, unsigned: n}, nil
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return number{}, badValue("a number is too large")
	}
	return number{kind: isFloat, float: f}, nil
}

// readInteger reads a MessagePack integer.
func readInteger(b []byte) (n number, rest []byte, err error) {
	if n.integer, rest, err = msgp.ReadInt64Bytes(b); err != nil {
		n.kind = isUint
		n.unsigned, rest, err = msgp.ReadUint64Bytes(b)
	}
	return n, rest, err
}

func (n number) appendMessagePack(dst []byte) []byte {
	switch n.kind {
	case isInt:
		return appendInt(dst, n.integer)
	case isUint:
		return msgp.AppendUint64(dst, n.unsigned)
	}
	return msgp.AppendFloat64(dst, n.float)
}

func (n number) appendJSON(dst []byte) []byte {
	if n.kind == isUint {
		return strconv.AppendUint(dst, n.unsigned, 10)
	}
	return strconv.AppendInt(dst, n.integer, 10)
}

// value returns n as int64, uint64 or float64.
func (n number) value() any {
	switch n.kind {
	case isInt:
		return n.integer
	case isUint:
		return n.unsigned
	}
	return n.float
}

// appendFloatOrNull appends a float that is transcoded. Beyond the integers
// that the type can count it is written to its last digit: the shortest form
// would be another number to those who read an integer in it.
func appendFloatOrNull(dst []byte, f float64, bits int) []byte {
	countable := float64(1 << 53)
	if bits == 32 {
		countable = 1 << 24
	}
	switch abs := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case countable <= abs && abs < 1e21:
		return strconv.AppendFloat(dst, f, 'f', 0, 64)
	}
	return appendFloat(dst, f, bits)
}

// appendFloat appends a finite f in its shortest form, as ECMAScript and
// encoding/json do.
func appendFloat(dst []byte, f float64, bits int) []byte {
	format := byte('f')
	abs := math.Abs(f)
	small, large := abs < 1e-6, abs >= 1e21
	if bits == 32 {
		small, large = float32(abs) < 1e-6, float32(abs) >= 1e21
	}
	if abs != 0 && (small || large) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	if n := len(dst); format == 'e' && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 becomes e-9
		dst = dst[:n-1]
	}
	return dst
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendTimeJSON appends t as an RFC 3339 string.
func appendTimeJSON(dst []byte, t time.Time) ([]byte, error) {
	out, err := t.AppendText(append(dst, '"'))
	if err != nil {
		return dst, &Error{Reason: ReasonValue, Detail: "a time has no RFC 3339 form", Err: err}
	}
	return append(out, '"'), nil
}
