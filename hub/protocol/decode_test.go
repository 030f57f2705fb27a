package protocol

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A decodeCase is a raw value (MessagePack in hexadecimal digits) and what
// decoding it gives, nil for an error with ReasonValue.
type decodeCase struct {
	name   string
	raw    string
	decode func(Protocol, []byte) (any, error)
	want   any
}

func into[T any](p Protocol, raw []byte) (any, error) { return Decode[T](p, raw) }

// viaInterface decodes without the fast path of the generic function.
func viaInterface[T any](p Protocol, raw []byte) (any, error) {
	var v T
	err := p.Decode(raw, &v)
	return v, err
}

type level int

type nested struct {
	N    int            `json:"n"`
	F    float64        `json:"f"`
	B    []byte         `json:"b"`
	P    *int           `json:"p"`
	Any  any            `json:"any"`
	At   time.Time      `json:"at"`
	Raw  Value          `json:"raw"`
	List []int          `json:"list"`
	Map  map[string]any `json:"map"`
}

func TestDecodeJSON(t *testing.T) {
	seven := 7
	runDecode(t, JSON{}, func(s string) []byte { return []byte(s) }, []decodeCase{
		{"a string", `"a\"b"`, into[string], `a"b`},
		{"a string between white space", " \"a\"\n", into[string], "a"},
		{"null into string", `null`, into[string], ""},
		{"number into string", `1`, into[string], nil},
		{"half a string", `"a`, into[string], nil},
		{"two strings", `"a""b"`, into[string], nil},
		{"nothing into string", ``, into[string], nil},
		{"true", `true`, into[bool], true},
		{"false", ` false `, into[bool], false},
		{"null into bool", `null`, into[bool], nil},
		{"number into bool", `1`, into[bool], nil},
		{"an int", `-42`, into[int], -42},
		{"the largest int64", `9223372036854775807`, into[int64], int64(math.MaxInt64)},
		{"int64 overflow", `9223372036854775808`, into[int64], nil},
		{"the largest uint64", `18446744073709551615`, into[uint64], uint64(math.MaxUint64)},
		{"int8 overflow", `128`, into[int8], nil},
		{"int16", `-32768`, into[int16], int16(-32768)},
		{"int32 overflow", `2147483648`, into[int32], nil},
		{"uint8 overflow", `256`, into[uint8], nil},
		{"uint16", `65535`, into[uint16], uint16(65535)},
		{"uint32", `4294967295`, into[uint32], uint32(math.MaxUint32)},
		{"negative into uint", `-1`, into[uint], nil},
		{"fraction into int", `1.5`, into[int], nil},
		{"1.0 into int", `1.0`, into[int], nil},
		{"exponent into int", `1e2`, into[int], nil},
		{"null into int", `null`, into[int], nil},
		{"string into int", `"1"`, into[int], nil},
		{"leading zero", `01`, into[int], nil},
		{"leading plus", `+1`, into[int], nil},
		{"hexadecimal", `0x1`, into[int], nil},
		{"underscores", `1_0`, into[int], nil},
		{"a float", `1.5e3`, into[float64], 1500.0},
		{"an integer into float", `2`, into[float64], 2.0},
		{"float64 overflow", `1e999`, into[float64], nil},
		{"float32 overflow", `1e39`, into[float32], nil},
		{"float32", `0.1`, into[float32], float32(0.1)},
		{"infinity", `Infinity`, into[float64], nil},
		{"NaN", `NaN`, into[float64], nil},
		{"null into float", `null`, into[float64], nil},
		{"base64", `"AAH/"`, into[[]byte], []byte{0, 1, 255}},
		{"escaped base64", `"AAH\/"`, into[[]byte], []byte{0, 1, 255}},
		{"null into bytes", `null`, into[[]byte], []byte(nil)},
		{"broken base64", `"A"`, into[[]byte], nil},
		{"an array into bytes", `[1,2]`, into[[]byte], nil},
		{"a time", `"2017-04-11T00:00:00.5+01:00"`, into[time.Time], time.Date(2017, 4, 10, 23, 0, 0, 5e8, time.UTC)},
		{"null into time", `null`, into[time.Time], nil},
		{"a number into time", `1`, into[time.Time], nil},
		{"a time without zone", `"2017-04-11T00:00:00"`, into[time.Time], nil},
		{"any integer", `9007199254740993`, into[any], int64(9007199254740993)},
		{"any integer beyond int64", `18446744073709551615`, into[any], uint64(math.MaxUint64)},
		{"any integer beyond uint64", `18446744073709551616`, into[any], 18446744073709551616.0},
		{"any number with a fraction of zero", `1.0`, into[any], 1.0},
		{"any too large number", `1e999`, into[any], nil},
		{"any of everything", `{"a":[1,2.5,"x",null,true,false],"a\u0062":{},"c":[]}`, into[any],
			map[string]any{"a": []any{int64(1), 2.5, "x", nil, true, false}, "ab": map[string]any{}, "c": []any{}}},
		{"any of nothing", ``, into[any], nil},
		{"a map", `{"a":1}`, into[map[string]any], map[string]any{"a": int64(1)}},
		{"null into map", `null`, into[map[string]any], map[string]any(nil)},
		{"array into map", `[]`, into[map[string]any], nil},
		{"a slice of any", `[1]`, into[[]any], []any{int64(1)}},
		{"object into slice", `{}`, into[[]any], nil},
		{"null into pointer", `null`, into[*int], (*int)(nil)},
		{"a pointer", `7`, into[*int], &seven},
		{"a slice of strings", `["a","b"]`, into[[]string], []string{"a", "b"}},
		{"a slice with a null", `[1,null]`, into[[]int], nil},
		{"a named type", `3`, into[level], level(3)},
		{"overflow of a named type", `9223372036854775808`, into[level], nil},
		{"a struct, names in any case", `{"N":1,"f":2,"B":"AQ==","P":null,"any":{"x":[1,2.0]},"at":"2020-01-01T00:00:00Z","list":[],"Map":{"k":3},"new":1}`, into[nested],
			nested{N: 1, F: 2, B: []byte{1}, Any: map[string]any{"x": []any{int64(1), 2.0}}, At: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), List: []int{}, Map: map[string]any{"k": int64(3)}}},
		{"a struct's any beyond all floats", `{"any":1e999}`, into[nested], nil},
		{"null into a struct's int", `{"n":null}`, into[nested], nil},
		{"null into a struct's float", `{"f":null}`, into[nested], nil},
		{"null into a struct's time", `{"at":null}`, into[nested], nil},
		{"string into a struct's int", `{"n":"1"}`, into[nested], nil},
		{"fraction into a struct's int", `{"n":1.5}`, into[nested], nil},
		{"array into a struct", `[]`, into[nested], nil},
		{"any broken array", `[1`, into[any], nil},
		{"any broken number in depth", `{"a":[1e999]}`, into[any], nil},
		{"a broken struct", `{"n":1`, into[nested], nil},
		{"a struct that is not UTF-8", "{\"any\":\"\xff\"}", into[nested], nil},
		{"a raw message", `{"a": 1}`, into[json.RawMessage], json.RawMessage(`{"a": 1}`)},
		{"65 levels", strings.Repeat("[", 65) + strings.Repeat("]", 65), into[any], nil},
	})
}

func TestDecodeMessagePack(t *testing.T) {
	seven := 7
	runDecode(t, MessagePack{}, func(s string) []byte { return unhex(t, s) }, []decodeCase{
		{"a string", "a161", into[string], "a"},
		{"a string in its longest form", "db 00000001 61", into[string], "a"},
		{"nil into string", "c0", into[string], ""},
		{"binary into string", "c4 01 61", into[string], nil},
		{"number into string", "01", into[string], nil},
		{"a string that is not UTF-8", "a1 ff", into[string], nil},
		{"two strings", "a161 a162", into[string], nil},
		{"half a string", "a2 61", into[string], nil},
		{"nothing into string", "", into[string], nil},
		{"true", "c3", into[bool], true},
		{"nil into bool", "c0", into[bool], nil},
		{"number into bool", "01", into[bool], nil},
		{"an int", "d0 d6", into[int], -42},
		{"an int in its longest form", "cf 000000000000002a", into[int], 42},
		{"the largest int64", "cf 7fffffffffffffff", into[int64], int64(math.MaxInt64)},
		{"int64 overflow", "cf 8000000000000000", into[int64], nil},
		{"the largest uint64", "cf ffffffffffffffff", into[uint64], uint64(math.MaxUint64)},
		{"int8 overflow", "cc 80", into[int8], nil},
		{"int16", "d1 8000", into[int16], int16(-32768)},
		{"int32 overflow", "ce 80000000", into[int32], nil},
		{"uint8 overflow", "cd 0100", into[uint8], nil},
		{"uint16", "cd ffff", into[uint16], uint16(65535)},
		{"uint32", "ce ffffffff", into[uint32], uint32(math.MaxUint32)},
		{"negative into uint", "ff", into[uint], nil},
		{"a positive signed form into uint", "d1 0001", into[uint], uint(1)},
		{"fraction into int", "cb 3ff8000000000000", into[int], nil},
		{"nil into int", "c0", into[int], nil},
		{"string into int", "a131", into[int], nil},
		{"float32 into float64", "ca 3fc00000", into[float64], 1.5},
		{"an integer into float", "02", into[float64], 2.0},
		{"a huge integer into float", "cf ffffffffffffffff", into[float64], 18446744073709551615.0},
		{"float32 overflow", "cb 7fefffffffffffff", into[float32], nil},
		{"infinity into float32", "cb 7ff0000000000000", into[float32], float32(math.Inf(1))},
		{"nil into float", "c0", into[float64], nil},
		{"binary", "c4 03 0001ff", into[[]byte], []byte{0, 1, 255}},
		{"nil into bytes", "c0", into[[]byte], []byte(nil)},
		{"string into bytes", "a3 414141", into[[]byte], nil},
		{"timestamp 32", "d6 ff 58ec1c80", into[time.Time], time.Date(2017, 4, 11, 0, 0, 0, 0, time.UTC)},
		{"timestamp 64", "d7 ff 1d535300 6553f100", into[time.Time], time.Unix(1700000000, 123e6).UTC()},
		{"timestamp 96", "c7 0c ff 1dcd6500 ffffffffffffffff", into[time.Time], time.Unix(-1, 5e8).UTC()},
		{"a timestamp of too many nanoseconds", "d7 ff ffffffff 6553f100", into[time.Time], nil},
		{"a timestamp of another length", "c7 05 ff 0000000000", into[time.Time], nil},
		{"nil into time", "c0", into[time.Time], nil},
		{"msgp's own extension into time", "c7 0c 05 0000000000000000 00000000", into[time.Time], nil},
		{"two timestamps", "d6 ff 58ec1c80 d6 ff 58ec1c80", into[time.Time], nil},
		{"any small integer", "2a", into[any], int64(42)},
		{"any integer in an unsigned form", "cc c8", into[any], int64(200)},
		{"any integer beyond int64", "cf ffffffffffffffff", into[any], uint64(math.MaxUint64)},
		{"any float32", "ca 3fc00000", into[any], 1.5},
		{"any of everything", "83 a161 97 c0c2c3 a178 c40100 d6ff58ec1c80 ff 01 80 c3 90", into[any],
			map[string]any{"a": []any{nil, false, true, "x", []byte{0}, time.Date(2017, 4, 11, 0, 0, 0, 0, time.UTC), int64(-1)}, "1": map[string]any{}, "true": []any{}}},
		{"any unknown extension", "d4 01 00", into[any], nil},
		{"any map with a key that is an array", "81 90 01", into[any], nil},
		{"any unknown extension in depth", "81 a161 91 d40100", into[any], nil},
		{"any string that is not UTF-8", "a1ff", into[any], nil},
		{"any of nothing", "", into[any], nil},
		{"half a float", "cb 3ff8", into[float64], nil},
		{"a map", "81 a161 cc c8", into[map[string]any], map[string]any{"a": int64(200)}},
		{"nil into map", "c0", into[map[string]any], map[string]any(nil)},
		{"array into map", "90", into[map[string]any], nil},
		{"a slice of any", "91 01", into[[]any], []any{int64(1)}},
		{"nil into pointer", "c0", into[*int], (*int)(nil)},
		{"a pointer", "07", into[*int], &seven},
		{"a slice of strings", "92 a161 a162", into[[]string], []string{"a", "b"}},
		{"a named type", "03", into[level], level(3)},
		{"a struct", "87 a16e 01 a166 ca3fc00000 a162 c40101 a170 c0 a3616e79 81 a178 92 cc80 cb4000000000000000 a26174 d6ff58ec1c80 a36e6577 c3", into[nested],
			nested{N: 1, F: 1.5, B: []byte{1}, Any: map[string]any{"x": []any{int64(128), 2.0}}, At: time.Date(2017, 4, 11, 0, 0, 0, 0, time.UTC)}},
		{"a struct's any beyond int64", "81 a3616e79 cf ffffffffffffffff", into[nested], nested{Any: uint64(math.MaxUint64)}},
		{"a struct with a long byte that only looks like one", "81 a3616e79 a2cfcf", into[nested], nested{Any: "\xcf\xcf"}},
		{"fraction into a struct's int", "81 a16e cb 3ff8000000000000", into[nested], nil},
		{"string into a struct's int", "81 a16e a131", into[nested], nil},
		{"array into a string", "81 a16e 90", into[nested], nil},
		{"a broken struct", "82 a16e 01", into[nested], nil},
		{"a raw message", "81 a161 01", into[json.RawMessage], json.RawMessage(`{"a":1}`)},
		{"65 levels", strings.Repeat("91", 64) + "90", into[any], nil},
	})
}

func runDecode(t *testing.T, p Protocol, raw func(string) []byte, tests []decodeCase) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.decode(p, raw(tt.raw))
			if tt.want == nil {
				wantError(t, err, ReasonValue, "")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if at, ok := got.(time.Time); ok {
				got = at.UTC()
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

func TestDecodeNullIntoAny(t *testing.T) {
	for p, raw := range map[Protocol]string{JSON{}: "null", MessagePack{}: "\xc0"} {
		if got, err := Decode[any](p, []byte(raw)); got != nil || err != nil {
			t.Errorf("%s: got %v, %v; want nil", p.Name(), got, err)
		}
	}
}

func TestDecodeViaInterfaceIsTheSame(t *testing.T) {
	for _, p := range protocols {
		raw, err := p.AppendValue(nil, 300)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := viaInterface[int](p, raw); err != nil || got != 300 {
			t.Errorf("%s into int: got %v, %v; want 300", p.Name(), got, err)
		}
		_, err = viaInterface[uint8](p, raw)
		wantError(t, err, ReasonValue, "")
	}
}

func TestAppend(t *testing.T) {
	at := time.Date(2017, 4, 11, 2, 0, 0, 0, time.FixedZone("", 2*3600))
	for _, tt := range []struct {
		name       string
		value      any
		json, pack string // pack in hexadecimal digits; both empty for an error
	}{
		{"nil", nil, `null`, "c0"},
		{"a string", "a<>&'+\u2028é😀", "\"a<>&'+\u2028é😀\"", "af 613c3e26272b e280a8 c3a9 f09f9880"},
		{"escapes", "\"\\\b\f\n\r\t\x00\x1e\x7f", `"\"\\\b\f\n\r\t\u0000\u001e` + "\x7f\"", "aa 225c080c0a0d09001e7f"},
		{"bytes that are not UTF-8", "a\xffé\xc3", `"a` + "\ufffdé\ufffd" + `"`, "a5 61ffc3a9c3"},
		{"a long plain string with an escape", "0123456789012345\n", `"0123456789012345\n"`, "b1 30313233343536373839303132333435 0a"},
		{"true", true, `true`, "c3"},
		{"int", -42, `-42`, "d0d6"},
		{"int8", int8(-1), `-1`, "ff"},
		{"int16", int16(200), `200`, "ccc8"},
		{"int32", int32(70000), `70000`, "ce00011170"},
		{"int64", int64(math.MinInt64), `-9223372036854775808`, "d38000000000000000"},
		{"uint", uint(127), `127`, "7f"},
		{"uint8", uint8(255), `255`, "ccff"},
		{"uint16", uint16(256), `256`, "cd0100"},
		{"uint32", uint32(65536), `65536`, "ce00010000"},
		{"uint64", uint64(math.MaxUint64), `18446744073709551615`, "cfffffffffffffffff"},
		{"float64", 0.1, `0.1`, "cb3fb999999999999a"},
		{"a whole float64", 2.0, `2`, "cb4000000000000000"},
		{"a large float64", 1e21, `1e+21`, "cb444b1ae4d6e2ef50"},
		{"a small float64", 1e-9, `1e-9`, "cb3e112e0be826d695"},
		{"float32", float32(0.1), `0.1`, "ca3dcccccd"},
		{"bytes", []byte{0, 1, 255}, `"AAH/"`, "c4030001ff"},
		{"nil bytes", []byte(nil), `null`, "c0"},
		{"a time", at, `"2017-04-11T02:00:00+02:00"`, "d6ff58ec1c80"},
		{"the Unix epoch", time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`, "d6ff00000000"},
		{"a time with nanoseconds", time.Unix(1700000000, 123e6).UTC(), `"2023-11-14T22:13:20.123Z"`, "d7ff1d5353006553f100"},
		{"a time before 1970", time.Unix(-1, 5e8).UTC(), `"1969-12-31T23:59:59.5Z"`, "c70cff1dcd6500ffffffffffffffff"},
		{"a raw message", json.RawMessage(` [1]`), ` [1]`, "9101"},
		{"a nil raw message", json.RawMessage(nil), `null`, "c0"},
		{"a broken raw message", json.RawMessage("[1\x1e"), "", ""},
		{"a struct", point{1, 200, "<x>"}, `{"x":1,"y":200,"name":"<x>"}`, "83a17801a179ccc8a46e616d65a33c783e"},
		{"a slice", []int{1, 200, -1}, `[1,200,-1]`, "9301ccc8ff"},
		{"a map", map[string]any{"a": []any{nil, 1.5}}, `{"a":[null,1.5]}`, "81a16192c0cb3ff8000000000000"},
		{"a pointer", &point{}, `{"x":0,"y":0,"name":""}`, "83a17800a17900a46e616d65a0"},
		{"a nil pointer", (*point)(nil), `null`, "c0"},
		{"a named type", level(3), `3`, "03"},
		{"a time in a struct", struct{ At time.Time }{at}, `{"At":"2017-04-11T02:00:00+02:00"}`, "81a24174d6ff58ec1c80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for p, want := range map[Protocol]string{JSON{}: tt.json, MessagePack{}: string(unhex(t, tt.pack))} {
				got, err := p.AppendValue([]byte("x"), tt.value)
				if tt.json == "" {
					wantError(t, err, ReasonValue, "")
					want = ""
				} else if err != nil {
					t.Fatalf("%s: %v", p.Name(), err)
				}
				if string(got) != "x"+want {
					t.Errorf("%s: got %q, want %q", p.Name(), got[1:], want)
				}
				again, _ := Append(p, []byte("x"), tt.value)
				if string(again) != string(got) {
					t.Errorf("%s, generic: got %q, want %q", p.Name(), again, got)
				}
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	type loop struct{ Next *loop }
	ring := &loop{}
	ring.Next = ring
	for _, tt := range []struct {
		name  string
		p     Protocol
		value any
	}{
		{"NaN in JSON", JSON{}, math.NaN()},
		{"infinity in JSON", JSON{}, float32(math.Inf(-1))},
		{"NaN in a JSON slice", JSON{}, []float64{math.NaN()}},
		{"a channel in JSON", JSON{}, make(chan int)},
		{"a ring in JSON", JSON{}, ring},
		{"a ring in MessagePack", MessagePack{}, ring},
		{"the year 10000 in JSON", JSON{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dst := []byte("before")
			got, err := tt.p.AppendInvocation(dst, "1", "x", []any{1, tt.value})
			wantError(t, err, ReasonValue, "")
			if string(got) != "before" {
				t.Errorf("got %q, want dst as it was", got)
			}
			if got, err = tt.p.AppendStreamItem(dst, "1", tt.value); err == nil || string(got) != "before" {
				t.Errorf("stream item: got %q, %v; want dst as it was and an error", got, err)
			}
			if got, err = tt.p.AppendResult(dst, "1", tt.value); err == nil || string(got) != "before" {
				t.Errorf("result: got %q, %v; want dst as it was and an error", got, err)
			}
			// The next value is encoded as if nothing had been.
			if _, err = tt.p.AppendValue(nil, point{1, 2, "x"}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestDotNetNames(t *testing.T) {
	type member struct {
		StringProp string `json:"stringProp"`
		Renamed    int    `json:"other" msgpack:"Key"`
	}
	raw := unhex(t, "82 aa537472696e6750726f70 a161 a34b6579 07")
	p := MessagePack{DotNetNames: true}
	got, err := Decode[member](p, raw)
	if want := (member{"a", 7}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	again, err := Append(p, nil, got)
	if err != nil || hex.EncodeToString(again) != hex.EncodeToString(raw) {
		t.Errorf("encoding again: got %x, %v; want %x", again, err, raw)
	}
	again, err = Append(MessagePack{}, nil, got)
	if want := "82aa737472696e6750726f70a161a34b657907"; err != nil || hex.EncodeToString(again) != want {
		t.Errorf("by json tags: got %x, %v; want %s", again, err, want)
	}
}

func TestErrorsNameNoPayload(t *testing.T) {
	for _, p := range protocols {
		raw, err := p.AppendValue(nil, "secret")
		if err != nil {
			t.Fatal(err)
		}
		for _, decode := range []func(Protocol, []byte) (any, error){into[int], into[bool], into[time.Time], into[nested], into[[]Value]} {
			if _, err := decode(p, raw); err == nil || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: got error %v", p.Name(), err)
			}
		}
	}
}
