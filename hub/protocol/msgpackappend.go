package protocol

import (
	"math/bits"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// The kinds of a Completion (HubProtocol.md, "Completion Message Encoding").
const (
	kindError  = 1
	kindVoid   = 2
	kindResult = 3
)

// AppendInvocation appends an Invocation; see Protocol. An empty id is nil: no
// answer is wanted.
func (p MessagePack) AppendInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error) {
	return p.appendCall(dst, Invocation, id, target, args, streamIDs)
}

// AppendStreamInvocation appends a StreamInvocation; see Protocol.
func (p MessagePack) AppendStreamInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error) {
	return p.appendCall(dst, StreamInvocation, id, target, args, streamIDs)
}

func (p MessagePack) appendCall(dst []byte, typ Type, id, target string, args []any, streamIDs []string) ([]byte, error) {
	start := len(dst)
	dst = beginRecord(dst, 6, typ)
	dst = msgp.AppendMapHeader(dst, 0)
	if id == "" {
		dst = msgp.AppendNil(dst)
	} else {
		dst = msgp.AppendString(dst, id)
	}
	dst = msgp.AppendString(dst, target)
	dst = msgp.AppendArrayHeader(dst, uint32(len(args)))
	for _, arg := range args {
		var err error
		if dst, err = p.AppendValue(dst, arg); err != nil {
			return dst[:start], err
		}
	}
	dst = msgp.AppendArrayHeader(dst, uint32(len(streamIDs)))
	for _, streamID := range streamIDs {
		dst = msgp.AppendString(dst, streamID)
	}
	return endRecord(dst, start), nil
}

// AppendStreamItem appends a StreamItem; see Protocol.
func (p MessagePack) AppendStreamItem(dst []byte, id string, item any) ([]byte, error) {
	start := len(dst)
	dst, err := p.AppendValue(beginCall(dst, 4, StreamItem, id), item)
	if err != nil {
		return dst[:start], err
	}
	return endRecord(dst, start), nil
}

// BeginResult appends the beginning of a Completion; see Protocol.
func (MessagePack) BeginResult(dst []byte, id string) []byte {
	return append(beginCall(dst, 5, Completion, id), kindResult)
}

// EndResult ends what BeginResult began and puts the length in front of it;
// see Protocol.
func (MessagePack) EndResult(dst []byte, start int) []byte {
	return endRecord(dst, start)
}

// AppendResult appends a Completion with a result, which may be nil; see
// Protocol.
func (p MessagePack) AppendResult(dst []byte, id string, result any) ([]byte, error) {
	start := len(dst)
	dst, err := p.AppendValue(p.BeginResult(dst, id), result)
	if err != nil {
		return dst[:start], err
	}
	return endRecord(dst, start), nil
}

// AppendVoid appends a Completion without result; see Protocol.
func (MessagePack) AppendVoid(dst []byte, id string) []byte {
	start := len(dst)
	return endRecord(append(beginCall(dst, 4, Completion, id), kindVoid), start)
}

// AppendError appends a Completion with an error; see Protocol. An empty text,
// which clients read as success, becomes "Unknown error.".
func (MessagePack) AppendError(dst []byte, id, text string) []byte {
	if text == "" {
		text = emptyErrorText
	}
	start := len(dst)
	dst = append(beginCall(dst, 5, Completion, id), kindError)
	return endRecord(msgp.AppendString(dst, text), start)
}

// AppendCancelInvocation appends a CancelInvocation; see Protocol.
func (MessagePack) AppendCancelInvocation(dst []byte, id string) []byte {
	start := len(dst)
	return endRecord(beginCall(dst, 3, CancelInvocation, id), start)
}

// AppendPing appends a Ping.
func (MessagePack) AppendPing(dst []byte) []byte {
	return append(dst, 0x02, 0x91, byte(Ping))
}

// AppendClose appends a Close; an empty text is nil.
func (MessagePack) AppendClose(dst []byte, text string, allowReconnect bool) []byte {
	start := len(dst)
	dst = beginRecord(dst, 3, Close)
	if text == "" {
		dst = msgp.AppendNil(dst)
	} else {
		dst = msgp.AppendString(dst, text)
	}
	return endRecord(msgp.AppendBool(dst, allowReconnect), start)
}

// AppendAck appends an Ack.
func (MessagePack) AppendAck(dst []byte, sequenceID int64) []byte {
	start := len(dst)
	return endRecord(appendInt(beginRecord(dst, 2, Ack), sequenceID), start)
}

// AppendSequence appends a Sequence.
func (MessagePack) AppendSequence(dst []byte, sequenceID int64) []byte {
	start := len(dst)
	return endRecord(appendInt(beginRecord(dst, 2, Sequence), sequenceID), start)
}

// beginRecord leaves one byte for the length, which is enough for most
// records, and begins the array.
func beginRecord(dst []byte, elements uint32, typ Type) []byte {
	return append(msgp.AppendArrayHeader(append(dst, 0), elements), byte(typ))
}

// beginCall begins a record that has headers and an id.
func beginCall(dst []byte, elements uint32, typ Type, id string) []byte {
	return msgp.AppendString(msgp.AppendMapHeader(beginRecord(dst, elements, typ), 0), id)
}

// endRecord writes the length of the body into the byte at start, and moves
// the body if it takes more than that.
func endRecord(dst []byte, start int) []byte {
	n := uint64(len(dst) - start - 1)
	if n < 0x80 {
		dst[start] = byte(n)
		return dst
	}
	var prefix [maxPrefix]byte
	size := (bits.Len64(n) + 6) / 7
	for i := range size {
		prefix[i] = byte(n>>(7*i)) | 0x80
	}
	prefix[size-1] &^= 0x80
	return slices.Replace(dst, start, start+1, prefix[:size]...)
}
