package wire

import (
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// nested is a value of so many lists, one in another.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// A malformed is a record that breaks the hub protocol, and what a server with
// detailed errors says about it.
type malformed struct{ name, bytes, detail string }

// breaks sends each one to a server and to one with detailed errors: both end
// the connection, with a Close that allows to reconnect, and run its callback.
func breaks(t *testing.T, d dialect, table []malformed) {
	t.Helper()
	var l ledger
	plain := start(t, server.Config{}, l.watch)
	detailed := tuned(t, func(o *hub.Options) { o.EnableDetailedErrors = true })
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			for i, detail := range map[*instance]string{plain: "", detailed: "InvalidDataException: " + tt.detail} {
				p := join(t, i, d, hubPath)
				p.works()
				p.write(message(d.opcode(), []byte(tt.bytes)))
				p.expectGone(closed(detail))
			}
		})
	}
	plain.empty(t, patience)
	l.expect(t, len(table), len(table))
	if got := plain.ends(hub.ErrProtocol); got != len(table) {
		t.Errorf("%d protocol errors counted, want %d", got, len(table))
	}
}

func TestMalformedJSONRecords(t *testing.T) {
	t.Parallel()
	const broken = "Error reading JSON."
	table := []malformed{
		{"empty", "", broken},
		{"only spaces", "  ", broken},
		{"no JSON", "hello", broken},
		{"a list", "[]", "Unexpected JSON Token Type 'Array'. Expected a JSON Object."},
		{"a text", `"x"`, "Unexpected JSON Token Type 'String'. Expected a JSON Object."},
		{"a number", "6", "Unexpected JSON Token Type 'Number'. Expected a JSON Object."},
		{"null", "null", "Unexpected JSON Token Type 'Null'. Expected a JSON Object."},
		{"cut off", `{"type":6`, broken},
		{"two records without a separator", `{"type":6}{"type":6}`, broken},
		{"trailing comma", `{"type":6,}`, broken},
		{"comment", `{"type":6/**/}`, broken},
		{"single quotes", `{'type':6}`, broken},
		{"not UTF-8", "{\"type\":6,\"x\":\"\xff\"}", broken},
		{"raw control character in a text", "{\"type\":6,\"x\":\"\n\"}", broken},
		{"number with a leading zero", `{"type":06}`, broken},
		{"no type", `{}`, "Missing required property 'type'."},
		{"type a text", `{"type":"6"}`, "Expected 'type' to be of type Number."},
		{"type null", `{"type":null}`, "Expected 'type' to be of type Number."},
		{"type a fraction", `{"type":1.5}`, "Expected 'type' to be of type Number."},
		{"type in another case", `{"Type":6}`, "Missing required property 'type'."},
		{"no target", `{"type":1,"arguments":[]}`, "Missing required property 'target'."},
		{"target a number", `{"type":1,"target":1,"arguments":[]}`, "Expected 'target' to be of type String."},
		{"target null", `{"type":1,"target":null,"arguments":[]}`, "Expected 'target' to be of type String."},
		{"no arguments", `{"type":1,"target":"Echo"}`, "Missing required property 'arguments'."},
		{"arguments a text", `{"type":1,"invocationId":"1","target":"Echo","arguments":"x"}`, "Expected 'arguments' to be of type Array."},
		{"arguments an object", `{"type":1,"target":"Echo","arguments":{}}`, "Expected 'arguments' to be of type Array."},
		{"id null", `{"type":1,"invocationId":null,"target":"Echo","arguments":[1]}`, "Expected 'invocationId' to be of type String."},
		{"id a number", `{"type":1,"invocationId":1,"target":"Echo","arguments":[1]}`, "Expected 'invocationId' to be of type String."},
		{"streaming call without id", `{"type":4,"target":"Echo","arguments":[1]}`, "Missing required property 'invocationId'."},
		{"cancel without id", `{"type":5}`, "Missing required property 'invocationId'."},
		{"item without id", `{"type":2,"item":1}`, "Missing required property 'invocationId'."},
		{"item without item", `{"type":2,"invocationId":"1"}`, "Missing required property 'item'."},
		{"completion with an empty id", `{"type":3,"invocationId":""}`, "Missing required property 'invocationId'."},
		{"completion with two ends", `{"type":3,"invocationId":"1","error":"e","result":1}`, "The 'error' and 'result' properties are mutually exclusive."},
		{"header a number", `{"type":1,"headers":{"h":1},"target":"Echo","arguments":[1]}`, "Expected header 'h' to be of type String."},
		{"stream id null", `{"type":1,"target":"Echo","arguments":[1],"streamIds":[null]}`, "Null value for 'streamIds' is not valid."},
		{"ack without number", `{"type":8}`, "Missing required property 'sequenceId'."},
		{"sequence that is a text", `{"type":9,"sequenceId":"1"}`, "Expected 'sequenceId' to be of type Number."},
		{"close with a strange answer", `{"type":7,"allowReconnect":1}`, "Expected 'allowReconnect' to be true or false."},
		{"65 levels", call("1", "Echo", nested(64)), broken},
		{"10,000 levels of lists", call("1", "Echo", nested(10_000)), broken},
		{"5,000 levels of objects where nobody looks", `{"type":6,"x":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}", broken},
	}
	for i := range table {
		table[i].bytes += separator
	}
	breaks(t, jsonDialect{}, table)
}

func TestMalformedMessagePackRecords(t *testing.T) {
	t.Parallel()
	const broken = "Error reading MessagePack."
	table := []malformed{
		{"empty", "", "Reading array length for 'message' failed."},
		{"a map", "\x80", "Reading array length for 'message' failed."},
		{"a number", "\x06", "Reading array length for 'message' failed."},
		{"an empty list", "\x90", "Reading 'messageType' as Int32 failed."},
		{"a code that is none", "\x91\xc1", broken},
		{"cut off", "\x92\x06", broken},
		{"more than one value", "\x91\x06\xc0", broken},
		{"type a text", "\x91\xa16", "Reading 'messageType' as Int32 failed."},
		{"type a float", "\x91\xcb\x40\x18\x00\x00\x00\x00\x00\x00", "Reading 'messageType' as Int32 failed."},
		{"type beyond 32 bits", "\x91\xcf\x00\x00\x00\x01\x00\x00\x00\x06", "Reading 'messageType' as Int32 failed."},
		{"call of nothing else", "\x91\x01", "Reading map length for 'headers' failed."},
		{"headers a list", "\x95\x01\x90\xc0\xa4Echo\x91\x01", "Reading map length for 'headers' failed."},
		{"header a number", "\x95\x01\x81\xa1h\x01\xc0\xa4Echo\x91\x01", "Reading 'headers.Value' as String failed."},
		{"id a number", "\x95\x01\x80\x01\xa4Echo\x91\x01", "Reading 'invocationId' as String failed."},
		{"target nil", "\x95\x01\x80\xa11\xc0\x91\x01", "Reading 'target' as String failed."},
		{"target a number", "\x95\x01\x80\xa11\x05\x91\x01", "Reading 'target' as String failed."},
		{"target not UTF-8", "\x95\x01\x80\xa11\xa1\xff\x91\x01", "Reading 'target' as String failed."},
		{"no arguments", "\x94\x01\x80\xa11\xa4Echo", "Reading array length for 'arguments' failed."},
		{"arguments a text", "\x95\x01\x80\xa11\xa4Echo\xa1x", "Reading array length for 'arguments' failed."},
		{"arguments nil", "\x95\x01\x80\xa11\xa4Echo\xc0", "Reading array length for 'arguments' failed."},
		{"stream ids a text", "\x96\x01\x80\xa11\xa4Echo\x91\x01\xa1x", "Reading array length for 'streamIds' failed."},
		{"completion of no kind", "\x94\x03\x80\xa11\x04", "Invalid invocation result kind."},
		{"completion without its error", "\x94\x03\x80\xa11\x01", "Reading 'error' as String failed."},
		{"completion without its result", "\x94\x03\x80\xa11\x03", "Reading 'result' as Object failed."},
		{"close of a number", "\x92\x07\x01", "Reading 'error' as String failed."},
		{"close with a strange answer", "\x93\x07\xc0\x01", "Reading 'allowReconnect' as Boolean failed."},
		{"ack without number", "\x91\x08", "Reading 'sequenceId' as Int64 failed."},
		{"65 levels", "\x95\x01\x80\xa11\xa4Echo\x91" + strings.Repeat("\x91", 63) + "\x01", broken},
		{"10,000 levels of lists", "\x95\x01\x80\xa11\xa4Echo\x91" + strings.Repeat("\x91", 10_000) + "\x01", broken},
		{"10,000 levels of maps", "\x95\x01\x80\xa11\xa4Echo\x91" + strings.Repeat("\x81\x01", 10_000) + "\x01", broken},
		{"a handshake once more", string([]byte(`{"protocol":"x"}`)), "Reading array length for 'message' failed."},
	}
	for i := range table {
		table[i].bytes = string(packed([]byte(table[i].bytes)))
	}
	breaks(t, packDialect{}, table)
}

// What this server does not know, newer clients may: it is passed over.
func TestUnknownIsIgnored(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	for _, tt := range []struct {
		name    string
		dialect dialect
		bytes   string
	}{
		{"message type 10", jsonDialect{}, `{"type":10}`},
		{"message type 0", jsonDialect{}, `{"type":0,"target":5}`},
		{"negative message type", jsonDialect{}, `{"type":-1}`},
		{"message type 99 with fields of others", jsonDialect{}, `{"arguments":"x","invocationId":7,"type":99}`},
		{"unknown fields", jsonDialect{}, `{"x":[{"type":7}],"type":6,"":null,"target":1}`},
		{"unknown message type", packDialect{}, "\x91\x0a"},
		{"negative message type", packDialect{}, "\x91\xff"},
		{"unknown message type with anything behind", packDialect{}, "\x94\x63\xc4\x02ab\xd6\x05abcd\x81\xc0\xc0"},
		{"more elements than there are in a ping", packDialect{}, "\x93\x06\xc0\xa1x"},
		{"ack that nobody asked for", jsonDialect{}, `{"type":8,"sequenceId":9}`},
		{"sequence that nobody asked for", packDialect{}, "\x92\x09\x05"},
		{"completion of an unknown call", jsonDialect{}, `{"type":3,"invocationId":"nope","result":1}`},
		{"failed completion of an unknown call", packDialect{}, "\x95\x03\x80\xa1x\x01\xa1e"},
		{"item of an unknown stream", jsonDialect{}, `{"type":2,"item":1,"invocationId":"nope"}`},
		{"cancel of an unknown call", packDialect{}, "\x93\x05\x80\xa1x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := join(t, i, tt.dialect, hubPath)
			b := []byte(tt.bytes + separator)
			if tt.dialect.name() == "messagepack" {
				b = packed([]byte(tt.bytes))
			}
			p.write(message(p.opcode(), b))
			p.works()
			p.write(message(p.opcode(), append(b, p.encode(call("1", "Echo", `["behind"]`))...)))
			p.expect(result("1", `"behind"`))
		})
	}
	t.Run("the last one of repeated members counts", func(t *testing.T) {
		p := join(t, i, jsonDialect{}, hubPath)
		p.write(message(opText, []byte(`{"type":7,"arguments":[1,2],"target":"Nope","invocationId":"0","arguments":[3],"target":"Echo","invocationId":"1","type":1}`+separator)))
		p.expect(result("1", "3"))
	})
	t.Run("unknown fields, headers and elements of a call", func(t *testing.T) {
		p := join(t, i, jsonDialect{}, hubPath)
		p.write(message(opText, []byte(`{"arguments":[1],"headers":{"traceparent":"00-1"},"y":{},"invocationId":"1","target":"Echo","type":1}`+separator)))
		p.expect(result("1", "1"))
		q := join(t, i, packDialect{}, hubPath)
		q.write(message(opBinary, packed([]byte("\x98\x01\x81\xa1h\xa1v\xa11\xa4Echo\x91\x01\x90\xc0\x80"))))
		q.expect(result("1", "1"))
		q.write(message(opBinary, packed([]byte("\xdc\x00\x05\xcc\x01\xde\x00\x00\xd9\x011\xda\x00\x04Echo\xdd\x00\x00\x00\x01\xd3\x00\x00\x00\x00\x00\x00\x00\x01"))))
		q.write(message(opBinary, q.encode(call("2", "Echo", "[2]")))) // any width will do
		q.expect(result("1", "1"), result("2", "2"))
	})
}

// The deepest that may be nested works, in both protocols and across them.
func TestDeepestNesting(t *testing.T) {
	t.Parallel()
	for _, a := range arrangements(t) {
		t.Run(a.name, func(t *testing.T) {
			for _, from := range dialects() {
				for _, to := range dialects() {
					sender, receiver := join(t, a.sender, from, hubPath), join(t, a.receiver, to, hubPath)
					receiver.do("JoinGroup", `["g"]`)
					sender.expect(result(sender.ask("Echo", nested(63)), nested(62)))
					sender.do("SendToGroup", `["g","m",`+nested(62)+`]`)
					receiver.expect(invocation("m", nested(62)))
				}
			}
		})
	}
}

// Some values exist in one protocol only. A call that would have to send one
// to clients of the other fails, and nothing else happens.
func TestValuesThatOneProtocolLacks(t *testing.T) {
	t.Parallel()
	for _, a := range arrangements(t) {
		t.Run(a.name, func(t *testing.T) {
			j, q := join(t, a.receiver, jsonDialect{}, hubPath), join(t, a.receiver, packDialect{}, hubPath)
			j.do("JoinGroup", `["g"]`)
			q.do("JoinGroup", `["g"]`)
			for _, tt := range []struct{ name, value string }{
				{"an extension", "\xd6\x05abcd"},
				{"a map with nil as a key", "\x81\xc0\x01"},
				{"text that is not UTF-8", "\xa1\xff"},
			} {
				sender := join(t, a.sender, packDialect{}, hubPath)
				sender.write(message(opBinary, packed([]byte("\x95\x01\x80\xa11\xabSendToGroup\x93\xa1g\xa1m\x91"+tt.value))))
				sender.expect(failure("1", "An unexpected error occurred invoking 'SendToGroup' on the server."))
				sender.works()
			}
			sender := join(t, a.sender, jsonDialect{}, hubPath)
			sender.expect(failure(sender.ask("SendToGroup", `["g","m",[1e400]]`), "An unexpected error occurred invoking 'SendToGroup' on the server."))
			sender.do("SendToGroup", `["g","m",[1]]`)
			j.expect(invocation("m", "[1]"))
			q.expect(invocation("m", "[1]"))
		})
	}
}
