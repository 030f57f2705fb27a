package wire

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// ping is the record that keeps a connection alive.
const ping = `{"type":6}`

// A peer is a SignalR client made by hand: a socket that has shaken hands. It
// sends nothing that the test does not say, no pings above all.
type peer struct {
	*socket
	dialect
	unread []byte // records of the last message
	calls  int
}

// hello is the handshake request for a protocol.
func hello(d dialect) string { return `{"protocol":"` + d.name() + `","version":1}` + separator }

// agreed is the one good answer to it.
const agreed = "{}" + separator

// join opens a connection with its handshake done. The target is the path, with
// a query if any.
func join(t testing.TB, i *instance, d dialect, target string) *peer {
	t.Helper()
	return joinAt(t, i.Addr(), d, target)
}

// joinAt is join through an address that may be a proxy's.
func joinAt(t testing.TB, addr string, d dialect, target string) *peer {
	t.Helper()
	p := &peer{socket: open(t, addr, target), dialect: d}
	p.write(message(opText, []byte(hello(d))))
	p.expectAgreed()
	return p
}

// expectAgreed reads the answer to the handshake: a message of its own, in the
// frame that the protocol's records come in.
func (p *peer) expectAgreed() {
	p.t.Helper()
	if f := p.next(); f.op != p.opcode() || string(f.payload) != agreed {
		p.t.Fatalf("handshake answered by frame %x %q, want %x %q", f.op, f.payload, p.opcode(), agreed)
	}
}

// send sends records, all in one message.
func (p *peer) send(records ...string) {
	p.t.Helper()
	p.write(p.framed(records...))
}

// framed is what send writes.
func (p *peer) framed(records ...string) []byte {
	var b []byte
	for _, r := range records {
		b = append(b, p.encode(r)...)
	}
	return message(p.opcode(), b)
}

// record reads the next record, in the notation. Each message must hold whole
// records, in the right kind of frame.
func (p *peer) record(deadline time.Time) (string, error) {
	if len(p.unread) == 0 {
		f, err := p.read(deadline)
		if err != nil {
			return "", err
		}
		if f.op == opClose {
			return fmt.Sprintf("close %d", f.status()), nil
		}
		if f.op != p.opcode() {
			return "", fmt.Errorf("record in frame %x: %q", f.op, f.payload)
		}
		p.unread = f.payload
	}
	record, rest, err := p.decode(p.unread)
	if err != nil {
		return "", fmt.Errorf("message %q: %w", p.unread, err)
	}
	p.unread = rest
	return record, nil
}

// expect fails the test unless exactly these records come next, pings aside. A
// close frame stands as "close" and its status.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		got := ping
		for got == ping {
			var err error
			if got, err = p.record(time.Now().Add(patience)); err != nil {
				p.t.Fatalf("nothing came: %v, want %s", err, brief(w))
			}
		}
		if got != w {
			p.t.Fatalf("got %s, want %s", brief(got), brief(w))
		}
	}
}

// brief is text as a failure message shows it.
func brief(s string) string {
	if len(s) > 600 {
		return fmt.Sprintf("%s… (%d bytes)", s[:600], len(s))
	}
	return s
}

// ask sends a call with an id of its own and returns the id.
func (p *peer) ask(target, arguments string) string {
	p.t.Helper()
	id := p.nextID()
	p.send(call(id, target, arguments))
	return id
}

func (p *peer) nextID() string {
	p.calls++
	return fmt.Sprint("c", p.calls)
}

// call is the record of a call; without an id nobody waits for its answer.
func call(id, target, arguments string) string {
	if id != "" {
		id = `"invocationId":` + quoted(id) + `,`
	}
	return `{"type":1,` + id + `"target":` + quoted(target) + `,"arguments":` + arguments + `}`
}

// invocation is the record of a message from the server.
func invocation(target, arguments string) string { return call("", target, arguments) }

// result and failure are the records of the two answers to a call.
func result(id, value string) string {
	return `{"type":3,"invocationId":` + quoted(id) + `,"result":` + value + `}`
}

func failure(id, text string) string {
	return `{"type":3,"invocationId":` + quoted(id) + `,"error":` + quoted(text) + `}`
}

// do calls a method without a result.
func (p *peer) do(target, arguments string) {
	p.t.Helper()
	p.expect(result(p.ask(target, arguments), "null"))
}

// works shows that the connection is in order, nothing is in the way, and calls
// are answered: an Echo's answer is the very next record.
func (p *peer) works() {
	p.t.Helper()
	p.calls++
	id, value := fmt.Sprint("echo", p.calls), fmt.Sprint(p.calls)
	p.send(call(id, "Echo", "["+value+"]"))
	p.expect(result(id, value))
}

// An identity is the answer of WhoAmI.
type identity struct{ ConnectionID, UserID string }

// whoAmI asks the server.
func (p *peer) whoAmI() identity {
	p.t.Helper()
	p.ask("WhoAmI", "[]")
	answer, err := p.record(time.Now().Add(patience))
	if err != nil {
		p.t.Fatal(err)
	}
	var who struct{ Result identity }
	if err := json.Unmarshal([]byte(answer), &who); err != nil || len(who.Result.ConnectionID) < 22 {
		p.t.Fatalf("WhoAmI answered %s: %v", answer, err)
	}
	return who.Result
}

// expectGone reads the Close record with that error, the end of the WebSocket
// with status 1000 and, once it is answered, that of the connection.
func (p *peer) expectGone(closeRecord string) {
	p.t.Helper()
	p.expect(closeRecord, "close 1000")
	p.write(closeFrame(1000))
	p.expectEnd(patience)
}

// closed is a Close record with an error that allows to reconnect.
func closed(detail string) string {
	text := "Connection closed with an error."
	if detail != "" {
		text += " " + detail
	}
	return `{"type":7,"error":` + quoted(text) + `,"allowReconnect":true}`
}

// tooLarge is the Close record for a record beyond the limit.
func tooLarge(limit int) string {
	return closed(fmt.Sprintf("InvalidDataException: The maximum message size of %dB was exceeded. "+
		"The message size can be configured in AddHubOptions.", limit))
}

// onBoth runs a test over both hub protocols.
func onBoth(t *testing.T, test func(t *testing.T, d dialect)) {
	t.Helper()
	for _, d := range dialects() {
		t.Run(d.name(), func(t *testing.T) { test(t, d) })
	}
}

// together runs tests that mostly wait over both hub protocols, all at once:
// subtests are run at once only as far as there are processors.
func together(t *testing.T, tests map[string]func(t testing.TB, d dialect)) {
	t.Helper()
	var running sync.WaitGroup
	for name, test := range tests {
		for _, d := range dialects() {
			running.Go(func() { test(part{t, name + ", " + d.name() + ": "}, d) })
		}
	}
	running.Wait()
}

// A part is a test on a goroutine of its own. Only what the tests here use to
// fail is its own.
type part struct {
	testing.TB
	name string
}

func (p part) Error(args ...any) {
	p.Helper()
	p.TB.Error(p.name + fmt.Sprint(args...))
}

func (p part) Errorf(format string, args ...any) {
	p.Helper()
	p.TB.Error(p.name + fmt.Sprintf(format, args...))
}

func (p part) Fatal(args ...any) {
	p.Helper()
	p.Error(args...)
	runtime.Goexit()
}

func (p part) Fatalf(format string, args ...any) {
	p.Helper()
	p.Errorf(format, args...)
	runtime.Goexit()
}

// text is a value of the notation: a string of n bytes.
func text(n int) string { return `"` + strings.Repeat("x", n) + `"` }
