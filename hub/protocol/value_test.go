package protocol

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestTranscode(t *testing.T) {
	for _, tt := range []struct {
		name string
		json string
		pack string // in hexadecimal digits
		back string // JSON again, if it differs
	}{
		{"null", `null`, "c0", ""},
		{"booleans", `[true,false]`, "92c3c2", ""},
		{"zero", `0`, "00", ""},
		{"negative zero", `-0`, "00", `0`},
		{"an integer", `200`, "ccc8", ""},
		{"a negative integer", `-200`, "d1ff38", ""},
		{"an integer beyond 2^53", `9007199254740993`, "cf0020000000000001", ""},
		{"the smallest int64", `-9223372036854775808`, "d38000000000000000", ""},
		{"the largest uint64", `18446744073709551615`, "cfffffffffffffffff", ""},
		{"an integer beyond uint64", `18446744073709551616`, "cb43f0000000000000", `18446744073709551616`},
		{"1.0", `1.0`, "cb3ff0000000000000", `1`},
		{"an exponent", `1e2`, "cb4059000000000000", `100`},
		{"a fraction", `-0.25`, "cbbfd0000000000000", ""},
		{"a large float", `1e+21`, "cb444b1ae4d6e2ef50", ""},
		{"a string", `"aé😀"`, "a761c3a9f09f9880", ""},
		{"escapes", `"\u0061\n\u001e\ud800"`, "a6610a1eefbfbd", `"a\n\u001e` + "\ufffd" + `"`},
		{"an empty array", `[]`, "90", ""},
		{"15 elements", `[1` + strings.Repeat(",1", 14) + `]`, "9f" + strings.Repeat("01", 15), ""},
		{"16 elements", `[1` + strings.Repeat(",1", 15) + `]`, "dc0010" + strings.Repeat("01", 16), ""},
		{"an empty object", ` { } `, "80", `{}`},
		{"an object", `{ "b" : 1 , "a":{"":[ ]} }`, "82a16201a16181a090", `{"b":1,"a":{"":[]}}`},
		{"64 levels", strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("91", 63) + "90", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := Decode[Value](JSON{}, []byte(tt.json))
			if err != nil {
				t.Fatal(err)
			}
			pack, err := Append(MessagePack{}, nil, v)
			if want := string(unhex(t, tt.pack)); err != nil || string(pack) != want {
				t.Fatalf("to MessagePack: got %x, %v; want %x", pack, err, want)
			}
			v, err = Decode[Value](MessagePack{}, pack)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Append(JSON{}, nil, v)
			want := tt.back
			if want == "" {
				want = tt.json
			}
			if err != nil || string(back) != want {
				t.Errorf("back to JSON: got %s, %v; want %s", back, err, want)
			}
		})
	}
}

func TestTranscodeMessagePackOnly(t *testing.T) {
	for _, tt := range []struct {
		name, pack, want string // no want means an error
	}{
		{"float32", "ca3dcccccd", `0.1`},
		{"a whole float64", "cb4045000000000000", `42`},
		{"a whole float32", "ca4cebf1a2", `123702544`},
		{"a large float64", "cb43d3ffffffffffff", `5764607523034233856`},
		{"NaN", "cb7ff8000000000000", `null`},
		{"infinity", "ca7f800000", `null`},
		{"binary", "c4030001ff", `"AAH/"`},
		{"a timestamp", "d6ff58ec1c80", `"2017-04-11T00:00:00Z"`},
		{"a timestamp with nanoseconds", "d7ff1d5353006553f100", `"2023-11-14T22:13:20.123Z"`},
		{"a timestamp beyond the year 9999", "c70cff00000000 0fffffffffffffff", ""},
		{"keys that are integers and booleans", "83 01c0 ffc0 c3c0", `{"1":null,"-1":null,"true":null}`},
		{"a key that is a float", "81 ca00000000 c0", ""},
		{"a key that is nil", "81 c0 c0", ""},
		{"a key that is not UTF-8", "81 a1ff c0", ""},
		{"a string that is not UTF-8", "a1ff", ""},
		{"an unknown extension", "d40100", ""},
		{"an unknown extension in depth", "81 a161 91 d40100", ""},
		{"msgp's own extension", "c70c05 000000000000000000000000", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := NewValue(MessagePack{}, unhex(t, tt.pack))
			got, err := Append(JSON{}, []byte("x"), v)
			if tt.want == "" {
				wantError(t, err, ReasonValue, "")
			} else if err != nil {
				t.Fatal(err)
			}
			if want := "x" + tt.want; string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestValueIsPassedOnAsItIs(t *testing.T) {
	for p, raw := range map[Protocol]string{
		JSON{}:        `{"a" : [1.0, "\u0041"]}`,
		MessagePack{}: "\x81\xa1a\xcd\x00\x01",
	} {
		t.Run(p.Name(), func(t *testing.T) {
			buffer := []byte(raw)
			v, err := Decode[Value](p, buffer)
			if err != nil {
				t.Fatal(err)
			}
			clear(buffer) // v has its own copy
			if got := string(v.Raw()); got != raw || v.Protocol() != p || v.IsZero() {
				t.Errorf("got %q of %v, want %q", got, v.Protocol(), raw)
			}
			record, err := p.AppendResult(nil, "1", v)
			if err != nil {
				t.Fatal(err)
			}
			var m Message
			if err := p.Parse(mustCut(t, p, record), &m); err != nil || string(m.Value) != raw {
				t.Errorf("got %q, %v; want %q", m.Value, err, raw)
			}
		})
	}
}

func TestZeroValueIsNull(t *testing.T) {
	var zero Value
	if !zero.IsZero() || zero.Raw() != nil || zero.Protocol() != nil || !zero.Clone().IsZero() {
		t.Errorf("the zero Value is not zero: %+v", zero)
	}
	for p, want := range map[Protocol]string{JSON{}: "null", MessagePack{}: "\xc0"} {
		if got, err := Append(p, nil, zero); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", p.Name(), got, err, want)
		}
	}
}

func TestBrokenValueIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    Value
	}{
		{"no JSON", NewValue(JSON{}, []byte(`{"a":`))},
		{"two JSON values", NewValue(JSON{}, []byte(`1 2`))},
		{"a JSON record separator", NewValue(JSON{}, []byte("1\x1e"))},
		{"nothing in JSON", NewValue(JSON{}, nil)},
		{"half a MessagePack value", NewValue(MessagePack{}, []byte{0x92, 1})},
		{"two MessagePack values", NewValue(MessagePack{}, []byte{1, 2})},
		{"nothing in MessagePack", NewValue(MessagePack{}, nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range protocols {
				for _, v := range []any{tt.v, []Value{tt.v}, map[string]any{"v": tt.v}} {
					got, err := p.AppendValue(nil, v)
					wantError(t, err, ReasonValue, "")
					if len(got) > 0 {
						t.Errorf("%s: got %q", p.Name(), got)
					}
				}
			}
			_, err := Decode[Value](tt.v.Protocol(), tt.v.Raw())
			wantError(t, err, ReasonValue, "")
		})
	}
}

func TestValuesOfAnArray(t *testing.T) {
	for p, raws := range map[Protocol]struct {
		raw  string
		want []string
	}{
		JSON{}:        {` [ 1 , {"a":[2]} ,"x"] `, []string{`1`, `{"a":[2]}`, `"x"`}},
		MessagePack{}: {"\x93\x01\x81\xa1a\x91\x02\xa1x", []string{"\x01", "\x81\xa1a\x91\x02", "\xa1x"}},
	} {
		t.Run(p.Name(), func(t *testing.T) {
			buffer := []byte(raws.raw)
			vs, err := Decode[[]Value](p, buffer)
			if err != nil {
				t.Fatal(err)
			}
			clear(buffer)
			var got []string
			for _, v := range vs {
				got = append(got, string(v.Raw()))
			}
			if !reflect.DeepEqual(got, raws.want) {
				t.Errorf("got %q, want %q", got, raws.want)
			}
		})
	}
	for p, raws := range map[Protocol][3]string{JSON{}: {"null", "[]", "{}"}, MessagePack{}: {"\xc0", "\x90", "\x80"}} {
		if vs, err := Decode[[]Value](p, []byte(raws[0])); vs != nil || err != nil {
			t.Errorf("%s, null: got %v, %v; want nil", p.Name(), vs, err)
		}
		if vs, err := Decode[[]Value](p, []byte(raws[1])); vs == nil || len(vs) != 0 || err != nil {
			t.Errorf("%s, empty: got %v, %v; want an empty slice", p.Name(), vs, err)
		}
		_, err := Decode[[]Value](p, []byte(raws[2]))
		wantError(t, err, ReasonValue, "")
	}
}

func TestNestedValues(t *testing.T) {
	type outer struct {
		In  Value            `json:"in"`
		Ptr *Value           `json:"ptr"`
		Map map[string]Value `json:"map"`
	}
	const text = `{"in":{"big":9007199254740993,"list":[1,2.5]},"ptr":"x","map":{"k":null}}`
	v, err := Decode[outer](JSON{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := v.In.String(), `{"big":9007199254740993,"list":[1,2.5]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	pack, err := Append(MessagePack{}, nil, v)
	if err != nil {
		t.Fatal(err)
	}
	v, err = Decode[outer](MessagePack{}, pack)
	if err != nil {
		t.Fatal(err)
	}
	if p := v.In.Protocol(); p != (MessagePack{}) {
		t.Errorf("got a value of %v, want MessagePack", p)
	}
	back, err := Append(JSON{}, nil, v)
	if err != nil || string(back) != text {
		t.Errorf("got %s, %v; want %s", back, err, text)
	}
	std, err := json.Marshal(v)
	if err != nil || string(std) != text {
		t.Errorf("by encoding/json: got %s, %v; want %s", std, err, text)
	}
}

func TestTranscodeTooLargeNumber(t *testing.T) {
	for _, raw := range []string{`1e999`, `[1,{"a":[-1e999]}]`} {
		got, err := Append(MessagePack{}, []byte("x"), NewValue(JSON{}, []byte(raw)))
		wantError(t, err, ReasonValue, "a number is too large")
		if string(got) != "x" {
			t.Errorf("got %q, want dst as it was", got)
		}
	}
}

func TestValueString(t *testing.T) {
	if got, want := NewValue(MessagePack{}, []byte{0x92, 1, 0xc0}).String(), "[1,null]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := NewValue(MessagePack{}, []byte{0xc1}).String(); !strings.HasPrefix(got, "!(") {
		t.Errorf("got %s, want a complaint", got)
	}
}

// wrapped is a Protocol that is known only by its name.
type wrapped struct{ Protocol }

func TestWrappedProtocol(t *testing.T) {
	p := wrapped{JSON{}}
	v, err := Decode[Value](p, []byte(`[1]`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Append(MessagePack{}, nil, v); err != nil || string(got) != "\x91\x01" {
		t.Errorf("got %x, %v", got, err)
	}
	for _, inner := range protocols {
		v := NewValue(wrapped{inner}, mustAppend(t, inner, 7))
		if got, err := Append(JSON{}, nil, v); err != nil || string(got) != "7" {
			t.Errorf("a value of a wrapped %s: got %s, %v; want 7", inner.Name(), got, err)
		}
	}
	if got, err := Append(p, nil, 1); err != nil || string(got) != "1" {
		t.Errorf("got %s, %v; want 1", got, err)
	}
	if got, err := Decode[int](p, []byte("1")); err != nil || got != 1 {
		t.Errorf("got %d, %v; want 1", got, err)
	}
	if _, err := Append(JSON{}, nil, NewValue(unknown{}, []byte("1"))); err == nil {
		t.Error("got no error for a protocol that is not known")
	}
}

type unknown struct{ Protocol }

func (unknown) Name() string { return "unknown" }

func TestFloatsAreWrittenAsByEncodingJSON(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1e-7, 1e-6, 123456789, 1e20, 1e21, 1e100, 5e-324, math.MaxFloat64, -1.5e-10, 0.1, 1e22} {
		want, err := json.Marshal(f)
		if got := appendFloat(nil, f, 64); err != nil || string(got) != string(want) {
			t.Errorf("float64: got %s, want %s", got, want)
		}
		if math.Abs(f) > math.MaxFloat32 {
			continue
		}
		want, err = json.Marshal(float32(f))
		if got := appendFloat(nil, float64(float32(f)), 32); err != nil || string(got) != string(want) {
			t.Errorf("float32: got %s, want %s", got, want)
		}
	}
}

func TestNullableStringsAreStrict(t *testing.T) {
	for _, tt := range []struct {
		p    Protocol
		raw  string
		want string // "nil", or the text in quotes, or "error"
	}{
		{JSON{}, `null`, "nil"}, {JSON{}, ` null `, "nil"}, {JSON{}, `""`, `""`}, {JSON{}, `"a"`, `"a"`}, {JSON{}, `1`, "error"}, {JSON{}, `["a"]`, "error"},
		{MessagePack{}, "\xc0", "nil"}, {MessagePack{}, "\xa0", `""`}, {MessagePack{}, "\xa1a", `"a"`},
		{MessagePack{}, "\x01", "error"}, {MessagePack{}, "\x91\x01", "error"}, {MessagePack{}, "\xc4\x01a", "error"},
	} {
		got := "nil"
		v, err := Decode[*string](tt.p, []byte(tt.raw))
		switch {
		case err != nil:
			got = "error"
		case v != nil:
			got = `"` + *v + `"`
		}
		if got != tt.want {
			t.Errorf("%s %q: %s, want %s (%v)", tt.p.Name(), tt.raw, got, tt.want, err)
		}
	}
}

func TestWhatHasNoEncodingIsRefused(t *testing.T) {
	type inner struct{ Hidden func() }
	full := make(chan int, 1)
	full <- 1
	for _, p := range []Protocol{JSON{}, MessagePack{}} {
		for name, v := range map[string]any{
			"a channel": full, "a function": func() {}, "a field": inner{}, "an element": []inner{{}}, "a complex number": complex(1, 1),
		} {
			if b, err := p.AppendValue(nil, v); err == nil {
				t.Errorf("%s: %s was encoded as %q", p.Name(), name, b)
			}
		}
		type tree struct{ Children []*tree }
		if _, err := p.AppendValue(nil, tree{Children: []*tree{{}}}); err != nil {
			t.Errorf("%s: a type that holds itself: %v", p.Name(), err)
		}
	}
	if len(full) != 1 {
		t.Error("a channel was emptied")
	}
}
