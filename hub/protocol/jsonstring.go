package protocol

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendUnquoted appends the text of the JSON string raw, quotes included,
// which must have been scanned. Half a surrogate pair becomes U+FFFD, as in
// encoding/json.
func appendUnquoted(dst, raw []byte) []byte {
	s := raw[1 : len(raw)-1]
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			start := i
			for i < len(s) && s[i] != '\\' {
				i++
			}
			dst = append(dst, s[start:i]...)
			continue
		}
		switch c = s[i+1]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(s, i+2)
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+1 < len(s) && s[i] == '\\' && s[i+1] == 'u' {
					low = hex4(s, i+2)
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
		i += 2
	}
	return dst
}

// appendQuoted appends s as a JSON string with no more escapes than JSON
// demands: < > & ' and everything beyond ASCII are written as they are, as by
// the official server. Bytes that are not UTF-8 become U+FFFD.
func appendQuoted[S []byte | string](dst []byte, s S) []byte {
	dst = append(dst, '"')
	if n := plainPrefix(s); n < len(s) {
		dst = append(dst, s[:n]...)
		dst = appendEscaped(dst, s[n:])
	} else {
		dst = append(dst, s...)
	}
	return append(dst, '"')
}

// plainPrefix returns how many bytes at the beginning of s are ASCII and need
// no escape.
func plainPrefix[S []byte | string](s S) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if n := plainBytes(w); n < 8 {
			return i + n
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// appendEscaped appends the text s with its escapes.
func appendEscaped[S []byte | string](dst []byte, s S) []byte {
	valid := utf8.ValidString(string(s))
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf && !valid:
			size := runeSize(s[i:])
			if size == 0 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				size = 1
				start = i + 1
			}
			i += size
		case c < ' ' || c == '"' || c == '\\':
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
		default:
			i++
		}
	}
	return append(dst, s[start:]...)
}

// appendEscape appends the escape of an ASCII character.
func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '\b':
		c = 'b'
	case '\f':
		c = 'f'
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	case '"', '\\':
	default:
		return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
	return append(dst, '\\', c)
}

// runeSize returns the size of the character at the beginning of s, 0 if it is
// not UTF-8.
func runeSize[S []byte | string](s S) int {
	r, size := utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
	if r == utf8.RuneError && size <= 1 {
		return 0
	}
	return size
}
