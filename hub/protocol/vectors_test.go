package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// A vector is one entry of testdata/signalr-vectors.json. In its message a
// missing key is absent on the wire and null is null or nil; values that JSON
// cannot carry are {"$bin":hex}, {"$ts":{sec,nsec}}, {"$f32":x} and {"$f64":x}.
type vector struct {
	Name      string          `json:"name"`
	Protocol  string          `json:"protocol"`
	Kind      string          `json:"kind"`
	Direction string          `json:"direction"`
	Text      string          `json:"text"`
	Hex       string          `json:"hex"`
	Message   json.RawMessage `json:"message"`
	EmittedBy []string        `json:"emitted_by"`
	Expect    struct {
		Server string `json:"dotnet_server"`
	} `json:"expect"`
}

func loadVectors(tb testing.TB) []vector {
	tb.Helper()
	b, err := os.ReadFile("testdata/signalr-vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(b, &vs); err != nil {
		tb.Fatal(err)
	}
	if len(vs) != 224 {
		tb.Fatalf("got %d vectors, want 224", len(vs))
	}
	return vs
}

func (v *vector) bytes(tb testing.TB) []byte {
	tb.Helper()
	if v.Hex == "" {
		return []byte(v.Text)
	}
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func (v *vector) protocol() Protocol {
	if v.Protocol == "json" {
		return JSON{}
	}
	return MessagePack{}
}

// fields decodes a message of the vector file, numbers as json.Number.
func fields(tb testing.TB, raw []byte) map[string]any {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return m
}

func TestVectors(t *testing.T) {
	for _, v := range loadVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			switch v.Kind {
			case "message", "binding_error":
				testMessageVector(t, &v)
			case "batch", "unknown_type":
				testBatchVector(t, &v, v.bytes(t), v.Message)
			case "invalid":
				testInvalidVector(t, &v)
			case "partial":
				if body, size, err := v.protocol().Cut(v.bytes(t), 32768); size != 0 || err != nil {
					t.Errorf("Cut: got %q, %d, %v; want to need more", body, size, err)
				}
			case "handshake_request", "handshake_request_with_more":
				testHandshakeRequestVector(t, &v)
			case "handshake_response", "handshake_response_with_more":
				testHandshakeResponseVector(t, &v)
			default:
				t.Errorf("unknown kind %q", v.Kind)
			}
		})
	}
}

func testMessageVector(t *testing.T, v *vector) {
	p, whole := v.protocol(), v.bytes(t)
	body, size, err := p.Cut(whole, 0)
	if err != nil || size != len(whole) {
		t.Fatalf("Cut: got size %d, error %v; want %d", size, err, len(whole))
	}
	var m Message
	if err := p.Parse(body, &m); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	compareMessage(t, p, &m, fields(t, v.Message))
	compareEncoding(t, v, &m, whole)
}

// compareEncoding encodes m again where the official server wrote the vector
// and this package writes such messages.
func compareEncoding(t *testing.T, v *vector, m *Message, want []byte) {
	t.Helper()
	if !slices.Contains(v.EmittedBy, "dotnet") || len(m.Headers) > 0 {
		return
	}
	if m.Type == Close && m.HasError && len(m.Error) == 0 {
		return // not written: an empty error says no more than none
	}
	got, err := encodeMessage(v.protocol(), m)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encoding again: got %q, %v; want %q", got, err, want)
	}
}

// encodeMessage appends m with its raw values passed on as they are.
func encodeMessage(p Protocol, m *Message) ([]byte, error) {
	id, target := string(m.InvocationID), string(m.Target)
	var args []any
	for _, raw := range m.Arguments {
		args = append(args, NewValue(p, raw))
	}
	var streamIDs []string
	for _, s := range m.StreamIDs {
		streamIDs = append(streamIDs, string(s))
	}
	switch m.Type {
	case Invocation:
		return p.AppendInvocation(nil, id, target, args, streamIDs...)
	case StreamInvocation:
		return p.AppendStreamInvocation(nil, id, target, args, streamIDs...)
	case StreamItem:
		return p.AppendStreamItem(nil, id, NewValue(p, m.Value))
	case Completion:
		switch {
		case m.HasError:
			return p.AppendError(nil, id, string(m.Error)), nil
		case m.HasValue:
			return p.AppendResult(nil, id, NewValue(p, m.Value))
		}
		return p.AppendVoid(nil, id), nil
	case CancelInvocation:
		return p.AppendCancelInvocation(nil, id), nil
	case Ping:
		return p.AppendPing(nil), nil
	case Close:
		return p.AppendClose(nil, string(m.Error), m.AllowReconnect), nil
	case Ack:
		return p.AppendAck(nil, m.SequenceID), nil
	case Sequence:
		return p.AppendSequence(nil, m.SequenceID), nil
	}
	return nil, errors.New("nothing to encode")
}

func testBatchVector(t *testing.T, v *vector, rest []byte, messages json.RawMessage) {
	t.Helper()
	var want []json.RawMessage
	if err := json.Unmarshal(messages, &want); err != nil {
		t.Fatal(err)
	}
	p := v.protocol()
	var m Message
	for i, w := range want {
		if bytes.Contains(w, []byte(`"handshake"`)) {
			continue // already cut off by the caller
		}
		body, size, err := p.Cut(rest, 32768)
		if err != nil || size == 0 {
			t.Fatalf("Cut of record %d: got size %d, error %v", i, size, err)
		}
		rest = rest[size:]
		if err := p.Parse(body, &m); err != nil {
			t.Fatalf("Parse of record %d: %v", i, err)
		}
		if string(w) == "null" {
			if m.Type != 0 {
				t.Errorf("record %d: got type %d, want 0 for one that is not known", i, m.Type)
			}
			continue
		}
		compareMessage(t, p, &m, fields(t, w))
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes are left", len(rest))
	}
}

func testInvalidVector(t *testing.T, v *vector) {
	p := v.protocol()
	body, size, err := p.Cut(v.bytes(t), 32768)
	if err == nil {
		if size == 0 {
			t.Fatal("Cut wants more bytes")
		}
		err = p.Parse(body, new(Message))
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *Error", err)
	}
	if want, ok := strings.CutPrefix(v.Expect.Server, "closes: "); ok && e.Detail != want {
		t.Errorf("got detail %q, want %q", e.Detail, want)
	}
}

func testHandshakeRequestVector(t *testing.T, v *vector) {
	b := v.bytes(t)
	got, size, err := ParseHandshakeRequest(b, 32768)
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Protocol string `json:"protocol"`
		Version  int    `json:"version"`
	}
	if v.Kind == "handshake_request" {
		err = json.Unmarshal(v.Message, &want)
	} else {
		var more []struct{ Handshake json.RawMessage }
		if err = json.Unmarshal(v.Message, &more); err == nil {
			err = json.Unmarshal(more[0].Handshake, &want)
		}
		testBatchVector(t, v, b[size:], v.Message)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != HandshakeRequest(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if v.Kind == "handshake_request" && size != len(b) {
		t.Errorf("got size %d, want %d", size, len(b))
	}
	if slices.Contains(v.EmittedBy, "javascript") {
		if again := AppendHandshakeRequest(nil, got); !bytes.Equal(again, b) {
			t.Errorf("encoding again: got %q, want %q", again, b)
		}
	}
}

func testHandshakeResponseVector(t *testing.T, v *vector) {
	b := v.bytes(t)
	got, size, err := ParseHandshakeResponse(b)
	if err != nil {
		t.Fatal(err)
	}
	if v.Kind == "handshake_response_with_more" {
		testBatchVector(t, v, b[size:], v.Message)
		return
	}
	var want struct{ Error string }
	if err := json.Unmarshal(v.Message, &want); err != nil {
		t.Fatal(err)
	}
	if got != want.Error || size != len(b) {
		t.Errorf("got %q, size %d; want %q, size %d", got, size, want.Error, len(b))
	}
	if again := AppendHandshakeResponse(nil, got); !bytes.Equal(again, b) {
		t.Errorf("encoding again: got %q, want %q", again, b)
	}
}
