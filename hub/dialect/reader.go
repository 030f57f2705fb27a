package dialect

import (
	"encoding/binary"
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// MessagePack lead bytes of lengths that take 32 bits.
const (
	leadBin32 = 0xc6
	leadStr32 = 0xdb
)

// Names of protocols and of envelopes.
const (
	protocolJSON        = "json"
	protocolMessagePack = "messagepack"

	envInvocation   = "invocation"
	envGroupCommand = "group command"
	envAck          = "ack"
	envCompletion   = "completion"
)

// A reader walks through one envelope. After an error everything it returns
// is zero, so that callers check once.
type reader struct {
	b        []byte
	envelope string
	err      *Error
}

// fail records the first error.
func (r *reader) fail(item string, reason Reason) {
	if r.err == nil {
		r.err = &Error{Envelope: r.envelope, Item: item, Reason: reason}
	}
	r.b = nil
}

// failed records an error of the codec library.
func (r *reader) failed(item string, err error) {
	var overflow msgp.IntOverflow
	var uintOverflow msgp.UintOverflow
	switch {
	case errors.Is(err, msgp.ErrShortBytes):
		r.fail(item, Truncated)
	case errors.As(err, &overflow), errors.As(err, &uintOverflow):
		r.fail(item, OutOfRange)
	default:
		r.fail(item, WrongType)
	}
}

// error returns the first error as an error that is nil if there was none.
func (r *reader) error() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// array reads the head of the outer array, which must have at least least
// items. The count is not checked against the bytes that are left: items
// beyond the known ones are ignored, present or not.
func (r *reader) array(least int) int {
	n, rest, err := msgp.ReadArrayHeaderBytes(r.b)
	switch {
	case err != nil:
		r.failed("outer array", err)
		return 0
	case int64(n) < int64(least):
		r.fail("outer array", TooFewItems)
		return 0
	}
	r.b = rest
	return int(min(n, 16)) // nobody asks for more
}

// count checks a declared count of items of at least size bytes each.
func (r *reader) count(n uint32, size int, rest []byte, item string, err error) int {
	switch {
	case err != nil:
		r.failed(item, err)
		return 0
	case uint64(n)*uint64(size) > uint64(len(rest)):
		r.fail(item, Truncated)
		return 0
	}
	r.b = rest
	return int(n)
}

// fits tells whether a 32-bit length at the head of r.b stays within it, which
// the library takes for granted where an int has 32 bits.
func (r *reader) fits() bool {
	const head = 5
	if len(r.b) < head || r.b[0] != leadBin32 && r.b[0] != leadStr32 {
		return true
	}
	return uint64(binary.BigEndian.Uint32(r.b[1:head])) <= uint64(len(r.b)-head)
}

// str reads a string, which must not be nil, as a view that cannot grow into
// what follows it.
func (r *reader) str(item string) []byte {
	if r.err != nil {
		return nil
	}
	if !r.fits() {
		r.fail(item, Truncated)
		return nil
	}
	v, rest, err := msgp.ReadStringZC(r.b)
	if err != nil {
		r.failed(item, err)
		return nil
	}
	r.b = rest
	return v[:len(v):len(v)]
}

// optional reads a string or nil. The view of an empty string is not nil.
func (r *reader) optional(item string) []byte {
	if r.err == nil && msgp.IsNil(r.b) {
		r.b = r.b[1:]
		return nil
	}
	return r.str(item)
}

// bin reads binary data as such a view.
func (r *reader) bin(item string) []byte {
	if r.err != nil {
		return nil
	}
	if !r.fits() {
		r.fail(item, Truncated)
		return nil
	}
	v, rest, err := msgp.ReadBytesZC(r.b)
	if err != nil {
		r.failed(item, err)
		return nil
	}
	r.b = rest
	return v[:len(v):len(v)]
}

// integer reads an integer of any width that lies between lo and hi.
func (r *reader) integer(item string, lo, hi int64) int64 {
	if r.err != nil {
		return 0
	}
	v, rest, err := msgp.ReadInt64Bytes(r.b)
	switch {
	case err != nil:
		r.failed(item, err)
		return 0
	case v < lo || v > hi:
		r.fail(item, OutOfRange)
		return 0
	}
	r.b = rest
	return v
}

// name turns a protocol's name into a string, without an allocation if it is a
// known one or equal to old.
func name(v []byte, old string) string {
	switch string(v) {
	case protocolJSON:
		return protocolJSON
	case protocolMessagePack:
		return protocolMessagePack
	case old:
		return old
	}
	return string(v)
}

// appendInt appends an integer in its shortest form: unsigned unless it is
// negative. (The library's signed functions prefer signed forms.)
func appendInt(dst []byte, v int64) []byte {
	if v >= 0 {
		return msgp.AppendUint64(dst, uint64(v))
	}
	return msgp.AppendInt64(dst, v)
}
