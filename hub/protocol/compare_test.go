package protocol

import (
	"encoding/hex"
	"encoding/json"
	"math/big"
	"slices"
	"testing"
	"time"
)

// compareMessage compares m with the fields of a vector.
func compareMessage(t *testing.T, p Protocol, m *Message, want map[string]any) {
	t.Helper()
	if got := json.Number(big.NewInt(int64(m.Type)).String()); got != want["type"] {
		t.Errorf("type: got %v, want %v", got, want["type"])
	}
	compareText(t, "invocationId", m.InvocationID, len(m.InvocationID) > 0, want)
	compareText(t, "target", m.Target, m.Type == Invocation || m.Type == StreamInvocation, want)
	compareText(t, "error", m.Error, m.HasError, want)
	compareTexts(t, "streamIds", m.StreamIDs, want)
	args, _ := want["arguments"].([]any)
	if len(args) != len(m.Arguments) {
		t.Fatalf("arguments: got %q, want %v", m.Arguments, args)
	}
	for i := range args {
		compareValue(t, p, m.Arguments[i], args[i])
	}
	value, has := want["item"]
	if !has {
		value, has = want["result"]
	}
	if has != m.HasValue {
		t.Errorf("HasValue: got %v, want %v", m.HasValue, has)
	} else if has {
		compareValue(t, p, m.Value, value)
	}
	allow, _ := want["allowReconnect"].(bool)
	if allow != m.AllowReconnect {
		t.Errorf("allowReconnect: got %v, want %v", m.AllowReconnect, allow)
	}
	if n, ok := want["sequenceId"].(json.Number); ok && n.String() != big.NewInt(m.SequenceID).String() {
		t.Errorf("sequenceId: got %d, want %s", m.SequenceID, n)
	}
	headers, _ := want["headers"].(map[string]any)
	if len(headers) != len(m.Headers) {
		t.Errorf("headers: got %q, want %v", m.Headers, headers)
	}
	for _, h := range m.Headers {
		if headers[string(h.Name)] != string(h.Value) {
			t.Errorf("header %q: got %q, want %v", h.Name, h.Value, headers[string(h.Name)])
		}
	}
}

func compareText(t *testing.T, name string, got []byte, has bool, want map[string]any) {
	t.Helper()
	text, wantHas := want[name].(string)
	if name == "invocationId" {
		wantHas = text != "" // an empty one counts as absent
	}
	if has != wantHas || string(got) != text {
		t.Errorf("%s: got %q (%v), want %q (%v)", name, got, has, text, wantHas)
	}
}

func compareTexts(t *testing.T, name string, got [][]byte, want map[string]any) {
	t.Helper()
	texts, _ := want[name].([]any)
	if len(texts) != len(got) {
		t.Fatalf("%s: got %q, want %v", name, got, texts)
	}
	for i := range got {
		if string(got[i]) != texts[i] {
			t.Errorf("%s %d: got %q, want %v", name, i, got[i], texts[i])
		}
	}
}

func compareValue(t *testing.T, p Protocol, raw []byte, want any) {
	t.Helper()
	got, err := Decode[any](p, raw)
	if err != nil {
		t.Errorf("Decode of %q: %v", raw, err)
		return
	}
	if !equalValue(got, want) {
		t.Errorf("value: got %#v, want %#v", got, want)
	}
}

// equalValue compares a decoded value with one in the notation of the vectors.
func equalValue(got, want any) bool {
	switch want := want.(type) {
	case json.Number:
		if f, ok := got.(float64); ok {
			w, err := want.Float64()
			return err == nil && w == f
		}
		w, ok := new(big.Rat).SetString(want.String())
		g := exact(got)
		return ok && g != nil && g.Cmp(w) == 0
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(got, want, equalValue)
	case map[string]any:
		if special, equal := equalSpecial(got, want); special {
			return equal
		}
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for k, w := range want {
			g, ok := got[k]
			if !ok || !equalValue(g, w) {
				return false
			}
		}
		return true
	}
	return got == want
}

// exact returns a decoded integer, nil for anything else.
func exact(v any) *big.Rat {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case uint64:
		return new(big.Rat).SetUint64(v)
	}
	return nil
}

func equalSpecial(got any, want map[string]any) (special, equal bool) {
	if text, ok := want["$bin"].(string); ok {
		got, isBytes := got.([]byte)
		return true, isBytes && hex.EncodeToString(got) == text
	}
	if ts, ok := want["$ts"].(map[string]any); ok {
		sec, _ := ts["sec"].(json.Number).Int64()
		nsec, _ := ts["nsec"].(json.Number).Int64()
		got, isTime := got.(time.Time)
		return true, isTime && got.Equal(time.Unix(sec, nsec))
	}
	for _, key := range []string{"$f32", "$f64"} {
		if n, ok := want[key].(json.Number); ok {
			f, _ := n.Float64()
			return true, got == f
		}
	}
	return false, false
}
