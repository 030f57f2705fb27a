package wire

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// withAdd gives the hub a method that is particular about its arguments.
func withAdd(h *hub.Hub) {
	h.Handle("Add", hub.Func2(func(_ context.Context, _ *hub.Caller, a int, b int) (int, error) { return a + b, nil }))
	h.Handle("Boom", hub.Action0(func(context.Context, *hub.Caller) error { return fmt.Errorf("a secret") }))
	h.Handle("No", hub.Action0(func(context.Context, *hub.Caller) error { return hub.Errorf("not today") }))
	h.Handle("Panic", hub.Action0(func(context.Context, *hub.Caller) error { panic("a secret") }))
}

// Heads of the errors of calls, and of their details.
const (
	failedHead = "Failed to invoke '%s' due to an error on the server."
	threwHead  = "An unexpected error occurred invoking '%s' on the server."
	noMethod   = " HubException: Method does not exist."
	bindDetail = " InvalidDataException: Error binding arguments. Make sure that the types of the provided values match the types of the hub method being invoked."
)

func TestBadCallFailsAlone(t *testing.T) {
	t.Parallel()
	plain := start(t, server.Config{}, withAdd)
	detailed := tuned(t, func(o *hub.Options) { o.EnableDetailedErrors = true }, withAdd)
	count := func(n, want int) string {
		return fmt.Sprintf(" InvalidDataException: Invocation provides %d argument(s) but target expects %d.", n, want)
	}
	long := strings.Repeat("m", 10<<10)
	for _, tt := range []struct{ name, target, arguments, text, detail string }{
		{"no arguments", "Echo", `[]`, fmt.Sprintf(failedHead, "Echo"), count(0, 1)},
		{"three arguments", "Echo", `[1,2,3]`, fmt.Sprintf(failedHead, "Echo"), count(3, 1)},
		{"one argument of two", "Add", `[1]`, fmt.Sprintf(failedHead, "Add"), count(1, 2)},
		{"an object where a number is due", "Add", `[1,{}]`, fmt.Sprintf(failedHead, "Add"), bindDetail},
		{"a text where a number is due", "Add", `["1",2]`, fmt.Sprintf(failedHead, "Add"), bindDetail},
		{"a fraction where an integer is due", "Add", `[1.5,2]`, fmt.Sprintf(failedHead, "Add"), bindDetail},
		{"a number too large for its type", "Add", `[1,9223372036854775808]`, fmt.Sprintf(failedHead, "Add"), bindDetail},
		{"null where a number is due", "Add", `[null,2]`, fmt.Sprintf(failedHead, "Add"), bindDetail},
		{"a number where a text is due", "JoinGroup", `[1]`, fmt.Sprintf(failedHead, "JoinGroup"), bindDetail},
		{"a number where a list is due", "SendToAll", `["m",1]`, fmt.Sprintf(failedHead, "SendToAll"), bindDetail},
		{"the server's spelling in the answer", "aDD", `[1]`, fmt.Sprintf(failedHead, "Add"), count(1, 2)},
		{"an unknown method", "Nope", `[1]`, fmt.Sprintf(failedHead, "Nope") + noMethod, ""},
		{"an unknown method of 10 kB", long, `[]`, fmt.Sprintf(failedHead, long) + noMethod, ""},
		{"an unknown method that looks like a record", "\x1e{\"type\":7}\x1e", `[]`, fmt.Sprintf(failedHead, "\x1e{\"type\":7}\x1e") + noMethod, ""},
		{"a method of every Go value", "String", `[]`, fmt.Sprintf(failedHead, "String") + noMethod, ""},
		{"an error that is the server's own", "Boom", `[]`, fmt.Sprintf(threwHead, "Boom"), " Exception: a secret"},
		{"a panic", "Panic", `[]`, fmt.Sprintf(threwHead, "Panic"), " Exception: panic: a secret"},
		{"an error meant for the client", "No", `[]`, fmt.Sprintf(threwHead, "No") + " HubException: not today", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, d dialect) {
				for i, want := range map[*instance]string{plain: tt.text, detailed: tt.text + tt.detail} {
					p := join(t, i, d, hubPath)
					p.expect(failure(p.ask(tt.target, tt.arguments), want))
					p.send(call("", tt.target, tt.arguments)) // nobody asked, nobody is told
					p.works()
				}
			})
		})
	}
}

func TestCallOfTheWrongKind(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{}, withAdd)
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		p.send(`{"type":4,"invocationId":"1","target":"echo","arguments":[1]}`)
		p.expect(failure("1", "The client attempted to invoke the non-streaming 'Echo' method with a streaming invocation."))
		p.send(`{"type":4,"invocationId":"2","target":"Nope","arguments":[]}`)
		p.expect(failure("2", fmt.Sprintf(failedHead, "Nope")+noMethod))
		p.send(`{"type":4,"invocationId":"3","target":"Echo","arguments":[]}`)
		p.expect(failure("3", fmt.Sprintf(failedHead, "Echo")))
		p.send(`{"type":1,"invocationId":"4","target":"Echo","arguments":[1],"streamIds":["s","t"]}`)
		p.expect(failure("4", fmt.Sprintf(threwHead, "Echo")+" HubException: Client sent 2 stream(s), Hub method expects 0."))
		p.works()
	})
}

func TestMethodNamesInAnyCase(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		for _, target := range []string{"Echo", "echo", "ECHO", "eChO"} {
			p.expect(result(p.ask(target, `[7]`), "7"))
		}
	})
}

// Whatever a client calls its calls, the answer repeats it byte for byte.
func TestInvocationIDsComeBack(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		for _, id := range []string{"0", " ", "ünï", "a\"b\\c", "\x1e", "\x00\n", strings.Repeat("i", 20<<10), "s1"} {
			p.send(call(id, "Echo", "[1]"))
			p.expect(result(id, "1"))
		}
		p.send(call("same", "Echo", "[1]"), call("same", "Echo", "[2]"))
		p.expect(result("same", "1"), result("same", "2"))
		p.works()
	})
}

// What stands in one client's text is never a record to another one.
func TestSeparatorInsideText(t *testing.T) {
	t.Parallel()
	const trick = `"\u001e{\"type\":7}\u001e"`
	for _, a := range arrangements(t) {
		t.Run(a.name, func(t *testing.T) {
			for _, from := range dialects() {
				for _, to := range dialects() {
					sender, receiver := join(t, a.sender, from, hubPath), join(t, a.receiver, to, hubPath)
					receiver.do("JoinGroup", `["g"]`)
					sender.expect(result(sender.ask("Echo", "["+trick+"]"), trick))
					sender.do("SendToGroup", `["g","m",[`+trick+`,{`+trick+`:1}]]`)
					receiver.expect(invocation("m", `[`+trick+`,{`+trick+`:1}]`))
					receiver.works()
				}
			}
		})
	}
}

func TestNamesBeyondTheirLimits(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	long, limit := strings.Repeat("ä", 512)+"x", strings.Repeat("ä", 512)
	bad := func(kind, why string) string { return "Bad name: the " + kind + " name " + why }
	for _, tt := range []struct{ what, name, why string }{
		{"empty", "", "is empty"},
		{"too long", long, "has 1025 bytes, more than 1024"},
		{"with a line feed", "a\nb", "has the control character U+000A"},
		{"with a NUL", "\x00", "has the control character U+0000"},
		{"with an escape", "\x1b[31m", "has the control character U+001B"},
		{"with a C1 control", "\u0085", "has the control character U+0085"},
		{"with a separator", "\x1e", "has the control character U+001E"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			name := quoted(tt.name)
			group := bad("group", tt.why)
			if tt.name == "" {
				group = "Cannot send to an empty group name."
			}
			onBoth(t, func(t *testing.T, d dialect) {
				p := join(t, i, d, hubPath)
				for _, c := range []struct{ target, arguments, want string }{
					{"JoinGroup", `[` + name + `]`, bad("group", tt.why)},
					{"LeaveGroup", `[` + name + `]`, bad("group", tt.why)},
					{"SendToGroup", `[` + name + `,"m",[]]`, group},
					{"SendToGroup", `["g",` + name + `,[]]`, bad("target", tt.why)},
					{"SendToUser", `[` + name + `,"m",[]]`, bad("user", tt.why)},
					{"SendToUser", `["u",` + name + `,[]]`, bad("target", tt.why)},
					{"SendToAll", `[` + name + `,[]]`, bad("target", tt.why)},
				} {
					p.expect(failure(p.ask(c.target, c.arguments), fmt.Sprintf(threwHead, c.target)+" HubException: "+c.want))
				}
				p.works()
			})
		})
	}
	t.Run("at the limit it works", func(t *testing.T) {
		onBoth(t, func(t *testing.T, d dialect) {
			p := join(t, i, d, hubPath)
			p.do("JoinGroup", `["`+limit+`"]`)
			p.send(call("1", "SendToGroup", `["`+limit+`","`+limit+`",[1]]`))
			p.expect(invocation(limit, "[1]"), result("1", "null"))
			p.do("LeaveGroup", `["`+limit+`"]`)
		})
	})
}

// Text that is not UTF-8 cannot come in JSON. In MessagePack it is an argument
// that does not fit, and nothing worse.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	p := join(t, i, packDialect{}, hubPath)
	for _, target := range []string{"JoinGroup", "LeaveGroup"} {
		record := p.encode(call("1", target, `["?"]`))
		p.write(message(opBinary, []byte(strings.Replace(string(record), "\xa1?", "\xa1\xff", 1))))
		p.expect(failure("1", fmt.Sprintf(failedHead, target)))
	}
	record := p.encode(call("1", "SendToGroup", `["?","m",[]]`))
	p.write(message(opBinary, []byte(strings.Replace(string(record), "\xa1?", "\xa1\xff", 1))))
	p.expect(failure("1", fmt.Sprintf(failedHead, "SendToGroup")))
	p.works()

	j := join(t, i, jsonDialect{}, hubPath)
	j.write(message(opText, []byte(call("1", "JoinGroup", `["`)+"\xff\"]}"+separator)))
	j.expectGone(closed(""))
}
