package protocol

import (
	stdjson "encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// jsonEncoders keeps encoders that write into a slice.
var jsonEncoders = sync.Pool{New: func() any {
	e := new(jsonEncoder)
	e.enc = stdjson.NewEncoder(&e.out)
	e.enc.SetEscapeHTML(false)
	return e
}}

type jsonEncoder struct {
	enc *stdjson.Encoder
	out sliceWriter
}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

func encodeComposedJSON(dst []byte, v any) ([]byte, error) {
	e := jsonEncoders.Get().(*jsonEncoder)
	e.out.b = dst
	err := e.enc.Encode(v)
	out := e.out.b
	e.out.b = nil
	jsonEncoders.Put(e)
	if err != nil {
		return dst, &Error{Reason: ReasonValue, Detail: "a value cannot be encoded: " + err.Error(), Err: err}
	}
	return out[:len(out)-1], nil // without the encoder's line feed
}

// jsonStrict are the rules of encoding/json with the additions that
// JSON.Decode names.
var jsonStrict = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(integerIntoAny),
		json.UnmarshalFromFunc(refuseNull[bool]),
		json.UnmarshalFromFunc(refuseNull[int]),
		json.UnmarshalFromFunc(refuseNull[int8]),
		json.UnmarshalFromFunc(refuseNull[int16]),
		json.UnmarshalFromFunc(refuseNull[int32]),
		json.UnmarshalFromFunc(refuseNull[int64]),
		json.UnmarshalFromFunc(refuseNull[uint]),
		json.UnmarshalFromFunc(refuseNull[uint8]),
		json.UnmarshalFromFunc(refuseNull[uint16]),
		json.UnmarshalFromFunc(refuseNull[uint32]),
		json.UnmarshalFromFunc(refuseNull[uint64]),
		json.UnmarshalFromFunc(refuseNull[float32]),
		json.UnmarshalFromFunc(refuseNull[float64]),
		json.UnmarshalFromFunc(refuseNull[time.Time]),
	)),
)

func decodeComposedJSON(raw []byte, v any) error {
	if !validJSON(raw) {
		return badValue("a value is no json")
	}
	if err := json.Unmarshal(raw, v, jsonStrict); err != nil {
		return &Error{Reason: ReasonValue, Detail: "a value does not fit: " + err.Error(), Err: err}
	}
	return nil
}

// refuseNull leaves all values but null to the json package.
func refuseNull[T any](d *jsontext.Decoder, _ *T) error {
	if d.PeekKind() == 'n' {
		return mismatch("number, boolean or time")
	}
	return errors.ErrUnsupported
}

// integerIntoAny decodes numbers and leaves the rest to the json package.
func integerIntoAny(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	n, err := parseNumber(raw)
	if err != nil {
		return err
	}
	*v = n.value()
	return nil
}
