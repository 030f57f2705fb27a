package protocol

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// maxJSONDepth is how deep objects and arrays may be nested in a record, the
// record's own object included (System.Text.Json: MaxDepth 64).
const maxJSONDepth = 64

// The scan functions check the grammar of RFC 8259 and find the end of what
// they scan. They take the index at which it starts and return the index
// behind it, or -1. They accept what encoding/json accepts, but no invalid
// UTF-8 and no nesting beyond maxJSONDepth.

// skipSpace returns the index of the first byte at or behind b[i] that is not
// white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// scanValue scans any value. depth is the number of objects and arrays around it.
func scanValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := scanString(b, i)
		return end
	case '{':
		return scanObject(b, i, depth+1)
	case '[':
		return scanArray(b, i, depth+1)
	case 't':
		return scanLiteral(b, i, "true")
	case 'f':
		return scanLiteral(b, i, "false")
	case 'n':
		return scanLiteral(b, i, "null")
	}
	return scanNumber(b, i)
}

func scanLiteral(b []byte, i int, word string) int {
	end := i + len(word)
	if end > len(b) || string(b[i:end]) != word {
		return -1
	}
	return end
}

func scanObject(b []byte, i, depth int) int {
	if depth > maxJSONDepth {
		return -1
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		end, _ := scanString(b, i)
		if i = scanColon(b, end); i < 0 {
			return -1
		}
		if i = scanValue(b, i, depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = scanNext(b, i, '}'); !more {
			return i
		}
	}
}

func scanArray(b []byte, i, depth int) int {
	if depth > maxJSONDepth {
		return -1
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = scanValue(b, i, depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = scanNext(b, i, ']'); !more {
			return i
		}
	}
}

// scanColon takes the end of a member's name (or -1) and returns where its
// value starts.
func scanColon(b []byte, i int) int {
	if i < 0 {
		return -1
	}
	if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
		return i + 1
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	return skipSpace(b, i+1)
}

// scanNext stands behind a member or element. It returns where the next one
// starts and true, or the index behind the closing bracket (or -1) and false.
func scanNext(b []byte, i int, closing byte) (int, bool) {
	i = skipSpace(b, i)
	switch {
	case i >= len(b):
		return -1, false
	case b[i] == ',':
		return skipSpace(b, i+1), true
	case b[i] == closing:
		return i + 1, false
	}
	return -1, false
}

const (
	eachByte = 0x0101010101010101
	eachHigh = 0x80 * eachByte
)

// stopBits looks at eight characters of a string at once. The lowest bit set
// in the result belongs to the first one that is a quote, a backslash or a
// control character; bits above that one mean nothing.
func stopBits(w uint64) uint64 {
	// With its bit 1 flipped, the quote 0x22 is below 0x21 just as control
	// characters are, and nothing else is. A borrow only runs upwards.
	low, backslash := w^0x02*eachByte, w^'\\'*eachByte
	return ((low - 0x21*eachByte) | (backslash - eachByte)) &^ w & eachHigh
}

// plainBytes returns how many of eight characters, the lowest byte first, are
// ASCII and need no escape.
func plainBytes(w uint64) int {
	return bits.TrailingZeros64(stopBits(w)|w&eachHigh) / 8
}

// scanString scans a string including its quotes and says whether it holds
// none but unescaped characters, so that b[i+1:end-1] is its text.
func scanString(b []byte, i int) (end int, plain bool) {
	s := b[i+1:]
	plain = true
	var seen uint64 // all bytes so far; a high bit asks for a check of the UTF-8
	for {
		for len(s) >= 8 {
			w := binary.LittleEndian.Uint64(s)
			seen |= w
			if stop := stopBits(w); stop != 0 {
				s = s[bits.TrailingZeros64(stop)/8:]
				break
			}
			s = s[8:]
		}
		if len(s) == 0 {
			return -1, false
		}
		switch c := s[0]; {
		case c == '"':
			end = len(b) - len(s) + 1
			if seen&eachHigh != 0 && !utf8.Valid(b[i+1:end-1]) {
				return -1, false
			}
			return end, plain
		case c == '\\':
			plain = false
			n := scanEscape(s)
			if n < 0 {
				return -1, false
			}
			s = s[n:]
		case c < ' ':
			return -1, false
		default:
			seen |= uint64(c)
			s = s[1:]
		}
	}
}

// scanEscape returns the length of the escape at the beginning of s, or -1.
func scanEscape(s []byte) int {
	if len(s) < 2 {
		return -1
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(s, 2) >= 0 {
			return 6
		}
	}
	return -1
}

// hex4 returns the value of the four hexadecimal digits at b[i], or -1.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = scanDigits(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = scanDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return scanDigits(b, i)
	}
	return i
}

// scanDigits scans one digit or more.
func scanDigits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// validJSON says whether raw is exactly one value, white space around it allowed.
func validJSON(raw []byte) bool {
	end := scanValue(raw, skipSpace(raw, 0), 0)
	return end >= 0 && skipSpace(raw, end) == len(raw)
}

// isInteger says whether the number raw is written without fraction and exponent.
func isInteger(raw []byte) bool {
	for _, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}
