package protocol

import (
	"bytes"
	std "encoding"
	"fmt"
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
	checked            sync.Map // reflect.Type to *error: whether it can be encoded
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

// encodable looks, once for each type, for what has no encoding and what the
// library would encode all the same: it empties channels and writes functions as
// null. What is behind an interface is not looked at.
func (c *codecHandle) encodable(t reflect.Type) error {
	if t == nil {
		return nil
	}
	if found, ok := c.checked.Load(t); ok {
		return *found.(*error)
	}
	err := checkType(t, map[reflect.Type]bool{})
	c.checked.Store(t, &err)
	return err
}

// checkType walks a type; seen holds those on the way.
func checkType(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || t.Implements(reflect.TypeFor[codec.Selfer]()) || t.Implements(reflect.TypeFor[std.BinaryMarshaler]()) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("a %s has no encoding", t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkType(t.Elem(), seen)
	case reflect.Map:
		if err := checkType(t.Key(), seen); err != nil {
			return err
		}
		return checkType(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" || f.Tag.Get("msgpack") == "-" {
				continue
			}
			if err := checkType(f.Type, seen); err != nil {
				return fmt.Errorf("%s.%s: %w", t, f.Name, err)
			}
		}
	}
	return nil
}

// maxKeptBuffer is how many bytes of room a pooled encoder keeps.
const maxKeptBuffer = 64 << 10

type codecEncoder struct {
	enc *codec.Encoder
	out []byte
}

func encodeMessagePack(dst []byte, c *codecHandle, v any) ([]byte, error) {
	if err := c.encodable(reflect.TypeOf(v)); err != nil {
		return dst, &Error{Reason: ReasonValue, Detail: "a value cannot be encoded: " + err.Error(), Err: err}
	}
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
