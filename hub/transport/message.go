package transport

import (
	"encoding/binary"
	"sync/atomic"
)

// headerRoom is the space kept in front of a record for its WebSocket frame
// header: 2 bytes, plus 8 of extended length (RFC 6455 section 5.2). Frames
// from a server carry no masking key.
const headerRoom = 10

// Opcodes of RFC 6455 section 5.2 that this package writes.
const (
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opFin    = 0x80
)

// A Message is one immutable run of whole records on its way to clients,
// encoded once however many connections receive it. Its buffer has room for a
// WebSocket frame header in front, so that WebSockets write header and payload
// in one piece while the other transports write the payload alone.
//
// Build one with NewMessage or BeginMessage and EndMessage; from then on
// everybody may read it and nobody may change it. The queues that hold a
// Message count themselves with Retain and Release.
type Message struct {
	buf     []byte
	start   int // where the frame header begins
	payload int // where the payload begins
	control bool

	refs   atomic.Int32
	onFree func(*Message)
}

// BeginMessage returns a buffer with the header's room already taken, to which
// the caller appends the payload before passing it to EndMessage. Capacity is
// the expected size of the payload in bytes.
func BeginMessage(capacity int) []byte {
	return make([]byte, headerRoom, headerRoom+capacity)
}

// EndMessage makes a Message of a buffer that came from BeginMessage. Binary
// chooses the WebSocket opcode. The buffer belongs to the Message afterwards.
func EndMessage(buf []byte, binaryFormat bool) *Message {
	m := &Message{}
	m.Reset(buf, binaryFormat)
	return m
}

// NewMessage copies payload into a Message of its own.
func NewMessage(payload []byte, binaryFormat bool) *Message {
	return EndMessage(append(BeginMessage(len(payload)), payload...), binaryFormat)
}

// Buffer returns the message's buffer emptied but for the header's room, to be
// appended to and given back by Reset. Only the one owner of a message that no
// queue holds may call it.
func (m *Message) Buffer() []byte {
	if m.buf == nil {
		return BeginMessage(0)
	}
	return m.buf[:headerRoom]
}

// Reset makes m hold the payload in buf, which came from BeginMessage or
// Buffer. Only the one owner of a message that no queue holds may call it.
func (m *Message) Reset(buf []byte, binaryFormat bool) {
	op := byte(opText)
	if binaryFormat {
		op = opBinary
	}
	m.buf = buf
	m.payload = headerRoom
	m.start = putHeader(buf, op, len(buf)-headerRoom)
}

// putHeader writes the frame header for a payload of n bytes so that it ends
// at headerRoom, and returns where it begins.
func putHeader(buf []byte, op byte, n int) int {
	switch {
	case n < 126:
		buf[headerRoom-2] = opFin | op
		buf[headerRoom-1] = byte(n)
		return headerRoom - 2
	case n <= 0xffff:
		buf[headerRoom-4] = opFin | op
		buf[headerRoom-3] = 126
		binary.BigEndian.PutUint16(buf[headerRoom-2:], uint16(n))
		return headerRoom - 4
	default:
		buf[0] = opFin | op
		buf[1] = 127
		binary.BigEndian.PutUint64(buf[2:], uint64(n))
		return 0
	}
}

// Frame returns the message as one whole WebSocket frame. Read only.
func (m *Message) Frame() []byte { return m.buf[m.start:] }

// Payload returns the records without a WebSocket header; empty for a control
// frame. Read only.
func (m *Message) Payload() []byte {
	if m.control {
		return nil
	}
	return m.buf[m.payload:]
}

// Size is what the message counts for in a queue: its bytes on a WebSocket.
func (m *Message) Size() int { return len(m.buf) - m.start }

// Control reports whether the message is a WebSocket control frame, which the
// other transports leave out.
func (m *Message) Control() bool { return m.control }

// NewProbe returns a WebSocket ping (RFC 6455 section 5.5.2): a question below
// the hub protocol that every living peer answers by itself.
func NewProbe() *Message {
	m := &Message{buf: make([]byte, headerRoom), payload: headerRoom, control: true}
	m.start = putHeader(m.buf, opPing, 0)
	return m
}

// OnFree names a function to be called with the message each time the last
// queue has released it. Call it before the first Retain.
func (m *Message) OnFree(f func(*Message)) { m.onFree = f }

// Retain counts n more queues that hold the message.
func (m *Message) Retain(n int) { m.refs.Add(int32(n)) }

// Release gives back n of them. Whoever releases may not touch the message
// afterwards.
func (m *Message) Release(n int) {
	if m.refs.Add(int32(-n)) == 0 && m.onFree != nil {
		m.onFree(m)
	}
}
