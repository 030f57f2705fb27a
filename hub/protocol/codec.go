package protocol

import (
	"bytes"
	"math"
	"reflect"
	"sync"

	"github.com/tinylib/msgp/msgp"
	"github.com/ugorji/go/codec"
)

// uint64Code begins an unsigned integer of 64 bits.
const uint64Code = 0xcf

// A codecHandle is one configuration of the codec library, made at start and
// never changed, with the encoders and decoders that use it.
type codecHandle struct {
	encoders, decoders sync.Pool
}

// The two ways to name the fields of structs (see MessagePack.DotNetNames),
// and for each the two ways to decode integers where the type is any: as int64,
// or as uint64 for the rare value that holds one beyond int64.
var (
	goNames         = newCodecHandle(true, "msgpack", "json")
	goNamesHuge     = newCodecHandle(false, "msgpack", "json")
	dotNetNames     = newCodecHandle(true, "msgpack")
	dotNetNamesHuge = newCodecHandle(false, "msgpack")
)

func (p MessagePack) handle(huge bool) *codecHandle {
	switch {
	case p.DotNetNames && huge:
		return dotNetNamesHuge
	case p.DotNetNames:
		return dotNetNames
	case huge:
		return goNamesHuge
	}
	return goNames
}

// hasHuge says whether the whole value raw holds an integer beyond int64.
func hasHuge(raw []byte) bool {
	if bytes.IndexByte(raw, uint64Code) < 0 {
		return false
	}
	for len(raw) > 0 {
		switch msgp.NextType(raw) {
		case msgp.ArrayType:
			_, raw, _ = msgp.ReadArrayHeaderBytes(raw)
			continue
		case msgp.MapType:
			_, raw, _ = msgp.ReadMapHeaderBytes(raw)
			continue
		case msgp.UintType:
			if n, _, _ := msgp.ReadUint64Bytes(raw); n > math.MaxInt64 {
				return true
			}
		}
		rest, err := msgp.Skip(raw)
		if err != nil {
			return false
		}
		raw = rest
	}
	return false
}

func newCodecHandle(signed bool, tags ...string) *codecHandle {
	h := new(codec.MsgpackHandle)
	h.WriteExt = true
	h.RawToString = false
	h.Raw = true                 // for Value
	h.PositiveIntUnsigned = true // as .NET and JavaScript write integers
	h.SignedInteger = signed
	h.ValidateUnicode = true
	h.MaxDepth = maxMessagePackDepth
	h.CheckCircularRef = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos(tags)
	c := new(codecHandle)
	c.encoders.New = func() any {
		e := new(codecEncoder)
		e.enc = codec.NewEncoderBytes(&e.out, h)
		return e
	}
	c.decoders.New = func() any { return codec.NewDecoderBytes(nil, h) }
	return c
}

// maxKeptBuffer is how many bytes of room a pooled encoder keeps.
const maxKeptBuffer = 64 << 10

type codecEncoder struct {
	enc *codec.Encoder
	out []byte
}

func encodeMessagePack(dst []byte, c *codecHandle, v any) ([]byte, error) {
	e := c.encoders.Get().(*codecEncoder)
	e.out = e.out[:0]
	e.enc.ResetBytes(&e.out)
	if err := e.enc.Encode(v); err != nil {
		// An encoder that failed midway is not used again.
		return dst, &Error{Reason: ReasonValue, Detail: "a value cannot be encoded: " + err.Error(), Err: err}
	}
	dst = append(dst, e.out...)
	if cap(e.out) > maxKeptBuffer {
		e.out = nil
	}
	c.encoders.Put(e)
	return dst, nil
}

// decode decodes raw, which is one whole value, into what v points to.
func (c *codecHandle) decode(raw []byte, v any) error {
	d := c.decoders.Get().(*codec.Decoder)
	d.ResetBytes(raw)
	if err := d.Decode(v); err != nil {
		return &Error{Reason: ReasonValue, Detail: "a value does not fit: " + err.Error(), Err: err}
	}
	d.ResetBytes(nil)
	c.decoders.Put(d)
	return nil
}
