package wire

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// across runs a test from every protocol to every protocol, on one instance and
// on two. The receiver is a member of the group g and the user u.
func across(t *testing.T, test func(t *testing.T, sender, receiver *peer)) {
	t.Helper()
	for _, a := range arrangements(t) {
		for _, from := range dialects() {
			for _, to := range dialects() {
				t.Run(a.name+", "+from.name()+" to "+to.name(), func(t *testing.T) {
					sender, receiver := join(t, a.sender, from, hubPath), join(t, a.receiver, to, hubPath+"?user_id=u")
					receiver.do("JoinGroup", `["g"]`)
					test(t, sender, receiver)
					receiver.works()
					receiver.do("LeaveGroup", `["g"]`)
					receiver.reset()
				})
			}
		}
	}
}

func TestNullsStayInPlace(t *testing.T) {
	t.Parallel()
	across(t, func(t *testing.T, sender, receiver *peer) {
		for _, arguments := range []string{
			`[]`, `[null]`, `[null,1,null]`, `[null,null,null]`, `[false]`, `[0]`, `[""]`, `[[]]`, `[{}]`, `[[null]]`,
			`[{"a":null}]`, `["",null,0,false,[],{"a":[null,{"b":null}]}]`,
		} {
			sender.do("SendToGroup", `["g","m",`+arguments+`]`)
			receiver.expect(invocation("m", arguments))
			sender.do("SendToUser", `["u","m",`+arguments+`]`)
			receiver.expect(invocation("m", arguments))
		}
		for _, value := range []string{`null`, `false`, `0`, `""`, `[]`, `{}`, `[null]`, `{"a":null}`} {
			sender.expect(result(sender.ask("Echo", `[`+value+`]`), value))
		}
	})
}

// An answer of the client has no reader here, whatever is in it: null, false,
// nothing at all. It must not be one that breaks the connection.
func TestNullAnswersAreAnswers(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		for _, answer := range []string{
			`{"type":3,"invocationId":"s1"}`, `{"type":3,"invocationId":"s1","result":null}`, `{"type":3,"invocationId":"s1","result":false}`,
			`{"type":3,"invocationId":"s1","result":0}`, `{"type":3,"invocationId":"s1","result":""}`, `{"type":3,"invocationId":"s1","error":""}`,
			`{"type":2,"invocationId":"s1","item":null}`,
		} {
			p.send(answer)
			p.works()
		}
	})
}

// Results of Go, byte by byte: there is always one, and a method without any
// answers null.
func TestResultsOfMethods(t *testing.T) {
	t.Parallel()
	type ctx = context.Context
	i := start(t, server.Config{}, func(h *hub.Hub) {
		h.Handle("Void", hub.Action0(func(ctx, *hub.Caller) error { return nil }))
		h.Handle("Nil", hub.Func0(func(ctx, *hub.Caller) (*int, error) { return nil, nil }))
		h.Handle("False", hub.Func0(func(ctx, *hub.Caller) (bool, error) { return false, nil }))
		h.Handle("Zero", hub.Func0(func(ctx, *hub.Caller) (int, error) { return 0, nil }))
		h.Handle("Empty", hub.Func0(func(ctx, *hub.Caller) (string, error) { return "", nil }))
		h.Handle("NilSlice", hub.Func0(func(ctx, *hub.Caller) ([]int, error) { return nil, nil }))
		h.Handle("Zeros", hub.Func0(func(ctx, *hub.Caller) (any, error) { return map[string]any{"a": nil}, nil }))
	})
	for _, tt := range []struct{ target, text, hex string }{
		{"Void", `{"type":3,"invocationId":"1","result":null}`, "07950380a13103c0"},
		{"Nil", `{"type":3,"invocationId":"1","result":null}`, "07950380a13103c0"},
		{"False", `{"type":3,"invocationId":"1","result":false}`, "07950380a13103c2"},
		{"Zero", `{"type":3,"invocationId":"1","result":0}`, "07950380a1310300"},
		{"Empty", `{"type":3,"invocationId":"1","result":""}`, "07950380a13103a0"},
		{"NilSlice", `{"type":3,"invocationId":"1","result":null}`, "07950380a13103c0"},
		{"Zeros", `{"type":3,"invocationId":"1","result":{"a":null}}`, "0a950380a1310381a161c0"},
	} {
		t.Run(tt.target, func(t *testing.T) {
			j, q := join(t, i, jsonDialect{}, hubPath), join(t, i, packDialect{}, hubPath)
			j.send(call("1", tt.target, "[]"))
			if f := j.next(); f.op != opText || string(f.payload) != tt.text+separator {
				t.Errorf("got frame %x %q, want text %q", f.op, f.payload, tt.text+separator)
			}
			q.send(call("1", tt.target, "[]"))
			if f := q.next(); f.op != opBinary || hex.EncodeToString(f.payload) != tt.hex {
				t.Errorf("got frame %x %x, want binary %s", f.op, f.payload, tt.hex)
			}
			for _, p := range []*peer{j, q} {
				p.send(call("", tt.target, "[]")) // nobody asked
				p.works()
			}
		})
	}
}

func TestIntegersStayIntegers(t *testing.T) {
	t.Parallel()
	across(t, func(t *testing.T, sender, receiver *peer) {
		for _, n := range []string{
			"0", "1", "-1", "127", "128", "-32", "-33", "255", "256", "65536", "4294967296", "-2147483649",
			"9007199254740991", "9007199254740993", "-9007199254740993", // 2^53 - 1, 2^53 + 1
			"9223372036854775807", "-9223372036854775808", "18446744073709551615",
		} {
			arguments := strings.ReplaceAll(`[N,[N],{"n":N},{"a":[{"b":N},N]},N]`, "N", n)
			sender.do("SendToGroup", `["g","m",`+arguments+`]`)
			receiver.expect(invocation("m", arguments))
			sender.expect(result(sender.ask("Echo", `[`+n+`]`), n))
		}
	})
}

func TestFloatsStayFloats(t *testing.T) {
	t.Parallel()
	for _, a := range arrangements(t) {
		t.Run(a.name, func(t *testing.T) {
			j, q := join(t, a.receiver, jsonDialect{}, hubPath), join(t, a.receiver, packDialect{}, hubPath)
			j.do("JoinGroup", `["g"]`)
			q.do("JoinGroup", `["g"]`)
			for _, tt := range []struct{ sent, pack, text string }{ // as JSON; to MessagePack; that to JSON
				{"1.5", "cb3ff8000000000000", "1.5"},
				{"-0.1", "cbbfb999999999999a", "-0.1"},
				{"1.0", "cb3ff0000000000000", "1"},
				{"1e3", "cb408f400000000000", "1000"},
				{"-0.0", "cb8000000000000000", "-0"},
				{"1e300", "cb7e37e43c8800759c", "1e+300"},
				{"9007199254740992.0", "cb4340000000000000", "9007199254740992"},
			} {
				sender := join(t, a.sender, jsonDialect{}, hubPath)
				sender.do("SendToGroup", `["g","m",[`+tt.sent+`,{"x":[`+tt.sent+`]}]]`)
				j.expect(invocation("m", `[`+tt.sent+`,{"x":[`+tt.sent+`]}]`)) // as it was written
				record := invocationHead + "92" + tt.pack + "81a17891" + tt.pack + "90"
				if f := q.next(); hex.EncodeToString(f.payload[1:]) != record {
					t.Errorf("%s came as %x, want %s", tt.sent, f.payload[1:], record)
				}
				q2 := join(t, a.sender, packDialect{}, hubPath)
				body, err := hex.DecodeString("95" + "0180a131" + "ab" + hex.EncodeToString([]byte("SendToGroup")) + "93a167a16d" + "91" + tt.pack)
				if err != nil {
					t.Fatal(err)
				}
				q2.write(message(opBinary, packed(body)))
				q2.expect(result("1", "null"))
				if f, want := q.next(), invocationHead+"91"+tt.pack+"90"; hex.EncodeToString(f.payload[1:]) != want {
					t.Errorf("%s came as %x, want %s", tt.sent, f.payload[1:], want)
				}
				j.expect(invocation("m", "["+tt.text+"]"))
			}
		})
	}
}

// invocationHead is the beginning of a message m in MessagePack, in hexadecimal,
// behind its length.
const invocationHead = "960180c0a16d"
