package protocol

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

// unhex decodes hexadecimal digits with spaces between them.
func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// wantError checks that err is an *Error with that reason and, unless it is
// empty, that detail.
func wantError(tb testing.TB, err error, reason Reason, detail string) {
	tb.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		tb.Fatalf("got error %v, want an *Error with reason %q", err, reason)
	}
	if e.Reason != reason || detail != "" && e.Detail != detail {
		tb.Errorf("got %q: %q, want %q: %q", e.Reason, e.Detail, reason, detail)
	}
	if got, want := e.Error(), "protocol: "+e.Detail; got != want {
		tb.Errorf("Error: got %q, want %q", got, want)
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		reason     Reason
		detail     string
	}{
		{"a number", `42`, ReasonNotRecord, "Unexpected JSON Token Type 'Number'. Expected a JSON Object."},
		{"a string", `"x"`, ReasonNotRecord, "Unexpected JSON Token Type 'String'. Expected a JSON Object."},
		{"true", `true`, ReasonNotRecord, "Unexpected JSON Token Type 'True'. Expected a JSON Object."},
		{"false", `false`, ReasonNotRecord, "Unexpected JSON Token Type 'False'. Expected a JSON Object."},
		{"an array that never ends", `[`, ReasonNotRecord, "Unexpected JSON Token Type 'Array'. Expected a JSON Object."},
		{"half a literal", `nul`, ReasonMalformed, "Error reading JSON."},
		{"white space", ` `, ReasonMalformed, "Error reading JSON."},
		{"text behind the object", `{"type":6}x`, ReasonMalformed, "Error reading JSON."},
		{"a trailing comma", `{"type":6,}`, ReasonMalformed, "Error reading JSON."},
		{"a comment", `{"type":6/**/}`, ReasonMalformed, "Error reading JSON."},
		{"a leading zero", `{"type":06}`, ReasonMalformed, "Error reading JSON."},
		{"a control character in a string", "{\"type\":6,\"x\":\"\n\"}", ReasonMalformed, "Error reading JSON."},
		{"half an escape", `{"type":6,"x":"\`, ReasonMalformed, "Error reading JSON."},
		{"an escape with too few digits", `{"type":6,"x":"\u12`, ReasonMalformed, "Error reading JSON."},
		{"an escape with a wrong digit", `{"type":6,"x":"\u12g4"}`, ReasonMalformed, "Error reading JSON."},
		{"a fraction without digits", `{"type":6,"x":1.}`, ReasonMalformed, "Error reading JSON."},
		{"an exponent without digits", `{"type":6,"x":1e+}`, ReasonMalformed, "Error reading JSON."},
		{"a member without colon", `{"type" 6}`, ReasonMalformed, "Error reading JSON."},
		{"a member without name", `{:6}`, ReasonMalformed, "Error reading JSON."},
		{"an inner member without name", `{"type":6,"x":{1:2}}`, ReasonMalformed, "Error reading JSON."},
		{"an inner member without colon", `{"type":6,"x":{"y"}}`, ReasonMalformed, "Error reading JSON."},
		{"an unknown escape", `{"type":6,"x":"\x"}`, ReasonMalformed, "Error reading JSON."},
		{"bytes that are not UTF-8", "{\"type\":6,\"x\":\"abcdefgh\xff\"}", ReasonMalformed, "Error reading JSON."},
		{"a type with a fraction", `{"type":6.0}`, ReasonWrongType, "Expected 'type' to be of type Number."},
		{"a type beyond 32 bits", `{"type":4294967297}`, ReasonWrongType, "Expected 'type' to be of type Number."},
		{"a target that is null", `{"type":1,"target":null,"arguments":[]}`, ReasonWrongType, "Expected 'target' to be of type String."},
		{"an empty id of a stream", `{"type":4,"invocationId":"","target":"x","arguments":[]}`, ReasonMissing, "Missing required property 'invocationId'."},
		{"headers that are no object", `{"type":6,"type":1,"headers":[],"target":"x","arguments":[]}`, ReasonWrongType, "Expected 'headers' to be of type Object."},
		{"stream ids that are no array", `{"type":1,"target":"x","arguments":[],"streamIds":"1"}`, ReasonWrongType, "Expected 'streamIds' to be of type Array."},
		{"a stream id that is null", `{"type":1,"target":"x","arguments":[],"streamIds":["1",null]}`, ReasonWrongType, "Null value for 'streamIds' is not valid."},
		{"a completion whose error is null", `{"type":3,"invocationId":"1","error":null}`, ReasonWrongType, "Expected 'error' to be of type String."},
		{"a completion with an empty error and a result", `{"type":3,"invocationId":"1","error":"","result":1}`, ReasonConflict, "The 'error' and 'result' properties are mutually exclusive."},
		{"allowReconnect that is a number", `{"type":7,"allowReconnect":1}`, ReasonWrongType, "Expected 'allowReconnect' to be true or false."},
		{"a close whose error is a number", `{"type":7,"error":1}`, ReasonWrongType, "Expected 'error' to be of type String."},
		{"a sequence id beyond 64 bits", `{"type":9,"sequenceId":9223372036854775808}`, ReasonWrongType, "Expected 'sequenceId' to be of type Number."},
		{"65 levels", `{"type":6,"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, ReasonMalformed, "Error reading JSON."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, JSON{}.Parse([]byte(tt.body), new(Message)), tt.reason, tt.detail)
		})
	}
}

func TestJSONAccepts(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Message
	}{
		{"white space anywhere", " {\r\n\t\"type\" : 1 , \"target\":\"x\" ,\"arguments\" : [ 1 , [ ] ] } ",
			Message{Type: Invocation, Target: []byte("x"), Arguments: [][]byte{[]byte("1"), []byte("[ ]")}}},
		{"the last of repeated members", `{"type":6,"arguments":[1,2],"target":"a","target":"b","arguments":[3],"type":1}`,
			Message{Type: Invocation, Target: []byte("b"), Arguments: [][]byte{[]byte("3")}}},
		{"escapes in names and ids", `{"\u0074ype":1,"invocationId":"\ud83d\ude00","target":"\/\n","arguments":[]}`,
			Message{Type: Invocation, InvocationID: []byte("😀"), Target: []byte("/\n")}},
		{"half a surrogate pair", `{"type":5,"invocationId":"\ud83dx\udc00"}`,
			Message{Type: CancelInvocation, InvocationID: []byte("\ufffdx\ufffd")}},
		{"capitals in escapes", `{"type":5,"invocationId":"\u00E9\b\f\r\t"}`,
			Message{Type: CancelInvocation, InvocationID: []byte("é\b\f\r\t")}},
		{"a name that holds a quote", `{"type\"":2,"type":6}`, Message{Type: Ping}},
		{"names in another case as unknown", `{"type":6,"Type":1,"TYPE":"x"}`, Message{Type: Ping}},
		{"an empty target", `{"type":1,"target":"","arguments":[]}`, Message{Type: Invocation, Target: []byte{}}},
		{"broken fields that the type does not have", `{"type":6,"target":1,"arguments":{},"headers":null}`, Message{Type: Ping}},
		{"unknown types", `{"type":10,"arguments":[1],"invocationId":null}`, Message{}},
		{"negative types", `{"type":-1}`, Message{}},
		{"type 257 as unknown", `{"type":257,"target":"x","arguments":[]}`, Message{}},
		{"64 levels", `{"type":6,"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, Message{Type: Ping}},
		{"a completion with an empty error", `{"type":3,"invocationId":"1","error":""}`,
			Message{Type: Completion, InvocationID: []byte("1"), Error: []byte{}, HasError: true}},
		{"headers in their order", `{"type":5,"invocationId":"1","headers":{"b":"1","a":"\t"}}`,
			Message{Type: CancelInvocation, InvocationID: []byte("1"), Headers: []Header{{[]byte("b"), []byte("1")}, {[]byte("a"), []byte("\t")}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := usedMessage()
			if err := (JSON{}).Parse([]byte(tt.body), m); err != nil {
				t.Fatal(err)
			}
			wantMessage(t, m, &tt.want)
		})
	}
}

func TestMessagePackRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		reason     Reason
		detail     string
	}{
		{"a record that ends before its headers", "91 01", ReasonWrongType, "Reading map length for 'headers' failed."},
		{"a map", "80", ReasonNotRecord, "Reading array length for 'message' failed."},
		{"bytes behind the array", "91 06 00", ReasonMalformed, "Error reading MessagePack."},
		{"an array that ends early", "92 06", ReasonMalformed, "Error reading MessagePack."},
		{"a prefix that is not used", "92 06 c1", ReasonMalformed, "Error reading MessagePack."},
		{"a type that is a float", "91 ca 40c00000", ReasonWrongType, "Reading 'messageType' as Int32 failed."},
		{"a type beyond 32 bits", "91 cf 0000000100000006", ReasonWrongType, "Reading 'messageType' as Int32 failed."},
		{"no type", "90", ReasonWrongType, "Reading 'messageType' as Int32 failed."},
		{"a header that is nil", "96 01 81 a178 c0 c0 a16d 90 90", ReasonMissing, "Null or empty value in header."},
		{"a header that is a number", "96 01 81 a178 01 c0 a16d 90 90", ReasonWrongType, "Reading 'headers.Value' as String failed."},
		{"a header's name that is a number", "96 01 81 01 a178 c0 a16d 90 90", ReasonWrongType, "Reading 'headers.Key' as String failed."},
		{"an id that is a number", "96 01 80 01 a16d 90 90", ReasonWrongType, "Reading 'invocationId' as String failed."},
		{"an id that is not UTF-8", "96 01 80 a1ff a16d 90 90", ReasonWrongType, "Reading 'invocationId' as String failed."},
		{"a target that is nil", "96 01 80 c0 c0 90 90", ReasonWrongType, "Reading 'target' as String failed."},
		{"no arguments", "94 01 80 c0 a16d", ReasonWrongType, "Reading array length for 'arguments' failed."},
		{"arguments that are nil", "96 01 80 c0 a16d c0 90", ReasonWrongType, "Reading array length for 'arguments' failed."},
		{"stream ids that are a map", "96 01 80 c0 a16d 90 80", ReasonWrongType, "Reading array length for 'streamIds' failed."},
		{"a stream id that is a number", "96 01 80 c0 a16d 90 91 01", ReasonWrongType, "Reading 'streamId' as String failed."},
		{"a stream item without item", "93 02 80 a131", ReasonWrongType, "Reading 'item' as Object failed."},
		{"a stream item without id", "94 02 80 c0 01", ReasonMissing, "Null or empty invocation ID for StreamItem message."},
		{"a completion without id", "94 03 80 c0 02", ReasonMissing, "Null or empty invocation ID for Completion message."},
		{"a completion without kind", "93 03 80 a131", ReasonWrongType, "Reading 'resultKind' as Int32 failed."},
		{"a completion without result", "94 03 80 a131 03", ReasonWrongType, "Reading 'result' as Object failed."},
		{"a close whose error is a number", "92 07 01", ReasonWrongType, "Reading 'error' as String failed."},
		{"allowReconnect that is nil", "93 07 c0 c0", ReasonWrongType, "Reading 'allowReconnect' as Boolean failed."},
		{"a sequence id beyond 64 bits", "92 09 cf ffffffffffffffff", ReasonWrongType, "Reading 'sequenceId' as Int64 failed."},
		{"65 levels", "92 06" + strings.Repeat("91", 63) + "90", ReasonMalformed, "Error reading MessagePack."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, MessagePack{}.Parse(unhex(t, tt.body), new(Message)), tt.reason, tt.detail)
		})
	}
}

func TestMessagePackAccepts(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       Message
	}{
		{"unknown types of any shape", "93 2a c0 c0", Message{}},
		{"negative types", "91 ff", Message{}},
		{"type 257 as unknown", "91 cd0101", Message{}},
		{"64 levels", "92 06" + strings.Repeat("91", 62) + "90", Message{Type: Ping}},
		{"more elements than a ping has", "93 06 c0 80", Message{Type: Ping}},
		{"a close with an empty error", "92 07 a0", Message{Type: Close, Error: []byte{}, HasError: true}},
		{"a completion with an empty error", "95 03 80 a131 01 a0",
			Message{Type: Completion, InvocationID: []byte("1"), Error: []byte{}, HasError: true}},
		{"headers in their order", "93 05 82 a162 a131 a161 a132 a131",
			Message{Type: CancelInvocation, InvocationID: []byte("1"), Headers: []Header{{[]byte("b"), []byte("1")}, {[]byte("a"), []byte("2")}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := usedMessage()
			if err := (MessagePack{}).Parse(unhex(t, tt.body), m); err != nil {
				t.Fatal(err)
			}
			wantMessage(t, m, &tt.want)
		})
	}
}

// usedMessage is a Message with leftovers of an earlier record everywhere.
func usedMessage() *Message {
	text := []byte("old")
	return &Message{
		Type: Close, InvocationID: text, Target: text, Arguments: [][]byte{text}, StreamIDs: [][]byte{text},
		Value: text, HasValue: true, Error: text, HasError: true, AllowReconnect: true, SequenceID: 7,
		Headers: []Header{{text, text}},
	}
}

func wantMessage(t *testing.T, got, want *Message) {
	t.Helper()
	if !sameMessage(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// sameMessage compares all fields, an empty slice being as good as nil.
func sameMessage(a, b *Message) bool {
	return a.Type == b.Type && bytes.Equal(a.InvocationID, b.InvocationID) && bytes.Equal(a.Target, b.Target) &&
		slices.EqualFunc(a.Arguments, b.Arguments, bytes.Equal) && slices.EqualFunc(a.StreamIDs, b.StreamIDs, bytes.Equal) &&
		bytes.Equal(a.Value, b.Value) && a.HasValue == b.HasValue &&
		bytes.Equal(a.Error, b.Error) && a.HasError == b.HasError &&
		a.AllowReconnect == b.AllowReconnect && a.SequenceID == b.SequenceID &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool {
			return bytes.Equal(x.Name, y.Name) && bytes.Equal(x.Value, y.Value)
		})
}

func TestNames(t *testing.T) {
	for p, want := range map[Protocol]struct {
		name   string
		binary bool
	}{JSON{}: {"json", false}, MessagePack{}: {"messagepack", true}} {
		if p.Name() != want.name || p.Binary() != want.binary {
			t.Errorf("got %q, %v; want %q, %v", p.Name(), p.Binary(), want.name, want.binary)
		}
	}
}

func TestEmptyErrorIsStillAnError(t *testing.T) {
	for _, p := range protocols {
		var m Message
		if err := p.Parse(mustCut(t, p, p.AppendError(nil, "1", "")), &m); err != nil {
			t.Fatal(err)
		}
		if want := "Unknown error."; string(m.Error) != want {
			t.Errorf("%s: got %q, want %q", p.Name(), m.Error, want)
		}
	}
}

func TestMessageKeepsLittle(t *testing.T) {
	var m Message
	if err := (JSON{}).Parse([]byte(`{"type":1,"target":"x","arguments":[`+strings.Repeat("1,", 1000)+`1]}`), &m); err != nil {
		t.Fatal(err)
	}
	if got, want := len(m.Arguments), 1001; got != want {
		t.Fatalf("got %d arguments, want %d", got, want)
	}
	m.Reset()
	if cap(m.Arguments) != 0 {
		t.Errorf("got room for %d arguments after an odd record, want none", cap(m.Arguments))
	}
}

func TestParsedSlicesDoNotReachTheirNeighbours(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.Name(), func(t *testing.T) {
			record, err := p.AppendInvocation(nil, "1", "Target", []any{"a", "b"}, "s")
			if err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(record)
			body, _, err := p.Cut(record, 0)
			if err != nil {
				t.Fatal(err)
			}
			var m Message
			if err := p.Parse(body, &m); err != nil {
				t.Fatal(err)
			}
			for _, s := range slices.Concat([][]byte{body, m.InvocationID, m.Target}, m.Arguments, m.StreamIDs) {
				_ = append(s, 'X')
			}
			if !bytes.Equal(record, before) {
				t.Errorf("an append changed the record: got %q, want %q", record, before)
			}
		})
	}
}
