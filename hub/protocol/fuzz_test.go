package protocol

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// seedBodies adds the bodies of all vectors of one protocol.
func seedBodies(f *testing.F, p Protocol) {
	for _, v := range loadVectors(f) {
		if v.Protocol != p.Name() {
			continue
		}
		rest := v.bytes(f)
		f.Add(rest)
		for {
			body, size, err := p.Cut(rest, 0)
			if size == 0 || err != nil {
				break
			}
			f.Add(body)
			rest = rest[size:]
		}
	}
}

// FuzzJSONParse compares the scanner with encoding/json: the same records are
// well formed, and those of known types hold the same.
func FuzzJSONParse(f *testing.F) {
	seedBodies(f, JSON{})
	f.Add([]byte(`{"type":1,"target":"\ud83d\ude00\u0000","arguments":[1e5,-0,[{}]],"streamIds":["\ud800"],"arguments":[2]}`))
	f.Add([]byte(`{"type":6,"x":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		checkCut(t, JSON{}, body)
		valid := json.Valid(body) && utf8.Valid(body) && jsonDepth(body) <= maxJSONDepth
		if got := validJSON(body); got != valid {
			t.Fatalf("validJSON(%q): got %v, want %v", body, got, valid)
		}
		var m Message
		err := JSON{}.Parse(body, &m)
		if err != nil {
			var reference map[string]json.RawMessage
			if valid && json.Unmarshal(body, &reference) == nil && string(reference["type"]) == "6" {
				t.Fatalf("refused a ping: %v", err)
			}
			return
		}
		if !valid {
			t.Fatalf("parsed what is not valid: %q", body)
		}
		compareWithReference(t, body, &m)
		checkAgain(t, JSON{}, &m)
	})
}

// jsonDepth returns the nesting of valid JSON.
func jsonDepth(b []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// compareWithReference compares m with what encoding/json reads in body.
func compareWithReference(t *testing.T, body []byte, m *Message) {
	t.Helper()
	var want map[string]json.RawMessage
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	text := func(raw json.RawMessage) (s string) {
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
		}
		return s
	}
	if m.Type >= Invocation && m.Type <= CancelInvocation && string(m.InvocationID) != text(want["invocationId"]) {
		t.Errorf("id: got %q, want %s", m.InvocationID, want["invocationId"])
	}
	switch m.Type {
	case Invocation, StreamInvocation:
		if string(m.Target) != text(want["target"]) {
			t.Errorf("target: got %q, want %s", m.Target, want["target"])
		}
		var args []json.RawMessage
		if err := json.Unmarshal(want["arguments"], &args); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(m.Arguments, args, func(a []byte, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("arguments: got %q, want %q", m.Arguments, args)
		}
	case StreamItem:
		if !bytes.Equal(m.Value, want["item"]) {
			t.Errorf("item: got %q, want %q", m.Value, want["item"])
		}
	case Completion:
		if !bytes.Equal(m.Value, want["result"]) || string(m.Error) != text(want["error"]) {
			t.Errorf("result: got %q, %q; want %q, %q", m.Value, m.Error, want["result"], want["error"])
		}
	}
}

// checkAgain checks that what was decoded is the same after encoding it.
func checkAgain(t *testing.T, p Protocol, m *Message) {
	t.Helper()
	if m.Type == 0 {
		return
	}
	record, err := encodeMessage(p, m)
	if err != nil {
		t.Fatalf("encoding %+v: %v", m, err)
	}
	body, size, err := p.Cut(record, 0)
	if err != nil || size != len(record) {
		t.Fatalf("Cut of %q: got size %d, error %v", record, size, err)
	}
	var again Message
	if err := p.Parse(body, &again); err != nil {
		t.Fatalf("decoding %q: %v", record, err)
	}
	want := *m
	want.Headers = nil // never written
	if m.HasError && len(m.Error) == 0 {
		if m.Type == Completion {
			want.Error = []byte(emptyErrorText)
		} else {
			want.HasError = false
		}
	}
	if !sameMessage(&again, &want) {
		t.Fatalf("got %+v, want %+v", again, want)
	}
}

// checkCut checks that each beginning of b either waits for more or gives what
// the whole gives.
func checkCut(t *testing.T, p Protocol, b []byte) {
	t.Helper()
	for _, limit := range []int{0, 1, 4, 64} {
		body, size, err := p.Cut(b, limit)
		if size > len(b) || limit > 0 && size > limit {
			t.Fatalf("limit %d: got size %d of %d", limit, size, len(b))
		}
		decided := false
		for i := range min(len(b), 100) {
			part, partSize, partErr := p.Cut(b[:i], limit)
			if partSize == 0 && partErr == nil {
				if decided {
					t.Fatalf("limit %d: undecided again at %d bytes", limit, i)
				}
				continue
			}
			decided = true
			if partSize != size || !bytes.Equal(part, body) || (partErr == nil) != (err == nil) {
				t.Fatalf("limit %d: got %q, %d, %v at %d bytes; want %q, %d, %v", limit, part, partSize, partErr, i, body, size, err)
			}
		}
	}
}

func FuzzMessagePackParse(f *testing.F) {
	seedBodies(f, MessagePack{})
	f.Add([]byte("\xdd\xff\xff\xff\xff"))
	f.Add([]byte("\xdf\xff\xff\xff\xff"))
	f.Add(bytes.Repeat([]byte{0x91}, 1000))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := MessagePack{}
		checkCut(t, p, body)
		rest, ok := skipMessagePack(body, maxMessagePackDepth)
		want, err := msgp.Skip(body)
		if ok && (err != nil || !bytes.Equal(rest, want)) {
			t.Fatalf("skipped to %x, msgp says %x, %v", rest, want, err)
		}
		var m Message
		if err := p.Parse(body, &m); err != nil {
			return
		}
		if !ok {
			t.Fatalf("parsed what is broken: %x", body)
		}
		checkAgain(t, p, &m)
		for _, raw := range m.Arguments {
			checkDecoders(t, p, raw)
		}
	})
}

// checkDecoders checks that no decoder panics and that what is decoded into
// any is the same after encoding it.
func checkDecoders(t *testing.T, p Protocol, raw []byte) {
	t.Helper()
	_, _ = Decode[string](p, raw)
	_, _ = Decode[int8](p, raw)
	_, _ = Decode[uint64](p, raw)
	_, _ = Decode[float32](p, raw)
	_, _ = Decode[[]byte](p, raw)
	_, _ = Decode[nested](p, raw)
	_, _ = Decode[[]nested](p, raw)
	_, _ = Decode[map[string]point](p, raw)
	v, err := Decode[any](p, raw)
	if err != nil {
		return
	}
	again, err := Append(p, nil, v)
	if err != nil {
		return // NaN and times that only one of the protocols can hold
	}
	if w, err := Decode[any](p, again); err != nil || !sameAny(v, w) {
		t.Fatalf("%q: got %#v, %v after encoding; want %#v", raw, w, err, v)
	}
}

// sameAny compares decoded values, numbers by what they are worth.
func sameAny(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameAny)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !sameAny(v, w) {
				return false
			}
		}
		return true
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Equal(b)
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		return x.Cmp(y) == 0
	}
	if x, y := approximate(a), approximate(b); x != nil && y != nil {
		return *x == *y
	}
	return a == b || a != a && b != b // NaN
}

// approximate returns what a float64 makes of a number, nil for anything else.
// A float and an integer are compared by that: the shortest form of a float
// may look like another integer.
func approximate(v any) *float64 {
	f, ok := v.(float64)
	if n := exact(v); n != nil {
		f, _ = n.Float64()
	} else if !ok || math.IsNaN(f) {
		return nil
	}
	return &f
}

func FuzzHandshake(f *testing.F) {
	for _, v := range loadVectors(f) {
		if strings.HasPrefix(v.Kind, "handshake") {
			f.Add(v.bytes(f))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, size, err := ParseHandshakeRequest(b, 64)
		if size < 0 || size > min(len(b), 64) || err != nil && size != 0 {
			t.Fatalf("got size %d, error %v", size, err)
		}
		for i := range min(size, len(b)) {
			if _, size, err := ParseHandshakeRequest(b[:i], 64); size != 0 || err != nil {
				t.Fatalf("after %d bytes: got size %d, error %v; want to wait", i, size, err)
			}
		}
		if size > 0 {
			record := AppendHandshakeRequest(nil, r)
			again, n, err := ParseHandshakeRequest(record, 0)
			if err != nil || n != len(record) || again != r {
				t.Fatalf("got %+v, %v after encoding; want %+v", again, err, r)
			}
		}
		text, size, err := ParseHandshakeResponse(b)
		if err != nil || size == 0 {
			return
		}
		record := AppendHandshakeResponse(nil, text)
		if again, n, err := ParseHandshakeResponse(record); err != nil || n != len(record) || again != text {
			t.Fatalf("got %q, %v after encoding; want %q", again, err, text)
		}
	})
}

// FuzzTranscode takes JSON to MessagePack and back, where numbers must keep
// their worth, and MessagePack to JSON, which must be valid.
func FuzzTranscode(f *testing.F) {
	for _, v := range loadVectors(f) {
		var m Message
		p := v.protocol()
		if body, size, err := p.Cut(v.bytes(f), 0); err == nil && size > 0 && p.Parse(body, &m) == nil {
			for _, raw := range slices.Concat(m.Arguments, [][]byte{m.Value}) {
				f.Add(raw)
			}
		}
	}
	f.Add([]byte(`[9007199254740993,18446744073709551615,18446744073709551616,1.0,-0,-0.0,1e-400]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := Decode[Value](JSON{}, raw); err == nil {
			checkTranscodeJSON(t, v)
			checkDecoders(t, JSON{}, raw)
		}
		v, err := Decode[Value](MessagePack{}, raw)
		if err != nil {
			return
		}
		out, err := Append(JSON{}, nil, v)
		if err == nil && (!validJSON(out) || !json.Valid(out) || bytes.IndexByte(out, recordSeparator) >= 0) {
			t.Fatalf("%x became %q", raw, out)
		}
		checkDecoders(t, MessagePack{}, raw)
	})
}

func checkTranscodeJSON(t *testing.T, v Value) {
	t.Helper()
	pack, err := Append(MessagePack{}, nil, v)
	if err != nil {
		if _, anyErr := Decode[any](JSON{}, v.Raw()); anyErr == nil {
			t.Fatalf("%q cannot become MessagePack: %v", v.Raw(), err)
		}
		return
	}
	packed, err := Decode[Value](MessagePack{}, pack)
	if err != nil {
		t.Fatalf("%q became %x: %v", v.Raw(), pack, err)
	}
	back, err := Append(JSON{}, nil, packed)
	if err != nil {
		t.Fatalf("%q became %x, which cannot go back: %v", v.Raw(), pack, err)
	}
	want, err := Decode[any](JSON{}, v.Raw())
	if err != nil {
		t.Fatal(err)
	}
	direct, directErr := Decode[any](MessagePack{}, pack)
	got, gotErr := Decode[any](JSON{}, back)
	if directErr != nil || !sameAny(direct, want) {
		t.Fatalf("%q became %x: got %#v, %v; want %#v", v.Raw(), pack, direct, directErr, want)
	}
	if gotErr != nil || !sameAny(got, want) {
		t.Fatalf("%q came back as %q: got %#v, %v; want %#v", v.Raw(), back, got, gotErr, want)
	}
}
