package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

func TestRecordCutOverSeveralMessages(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		value := `"` + strings.Repeat("ü", 120) + `"`
		record := d.encode(call("1", "Echo", "["+value+"]"))
		last := len(record) - 1
		pieces := func(size int) (b []byte) {
			for rest := record; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				b = append(b, message(d.opcode(), rest[:min(size, len(rest))])...)
			}
			return b
		}
		check := func(how string, b []byte) {
			t.Helper()
			p.write(b)
			p.expect(result("1", value))
			if t.Failed() {
				t.Fatal(how)
			}
		}
		for cut := range record {
			check(fmt.Sprintf("cut at %d", cut), append(message(d.opcode(), record[:cut]), message(d.opcode(), record[cut:])...))
		}
		check("one byte a message", pieces(1))
		check("last byte in a message of its own", append(message(d.opcode(), record[:last]), message(d.opcode(), record[last:])...))
		check("fifty frames", fragments(d.opcode(), record, len(record)/50+1))
		check("one byte a frame", fragments(d.opcode(), record, 1))
		check("pings between the frames", bytes.Join([][]byte{
			frame(d.opcode(), record[:9]), message(opPing, []byte("a")), frame(opContinuation, nil), message(opPong, nil),
			frame(opContinuation, record[9:10]), message(opPing, nil), frame(bitFin|opContinuation, record[10:]),
		}, nil))
		check("empty messages around it", bytes.Join([][]byte{
			message(opText, nil), message(opBinary, record[:20]), message(opText, nil), message(opText, record[20:]), message(opBinary, nil),
		}, nil))
		p.works() // nothing of all that is left over
	})
}

func TestManyRecordsInOneMessage(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		var records, want []string
		for n := range 100 {
			id := fmt.Sprint(n)
			records, want = append(records, call(id, "Echo", "["+text(1000)+"]")), append(want, result(id, text(1000)))
		}
		p.send(records...) // 100 kB, three times what one record may have
		p.expect(want...)
		p.works()
	})
}

func TestAnyKindOfFrameCarriesRecords(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		for _, op := range []byte{opText, opBinary} {
			p.write(message(op, d.encode(call("1", "Echo", `["x"]`))))
			p.expect(result("1", `"x"`)) // in the frame that the protocol wants
		}
	})
}

func TestLengthPrefixes(t *testing.T) {
	t.Parallel()
	i := tuned(t, func(o *hub.Options) { o.MaximumReceiveMessageSize = 100_000 })
	p := join(t, i, packDialect{}, hubPath)
	p.write(message(opBinary, []byte{0x02, 0x91, 0x06})) // a ping
	p.works()
	for _, tt := range []struct{ body, prefix int }{{127, 1}, {128, 2}, {16383, 2}, {16384, 3}, {70000, 3}} {
		record, answer := sized(t, p.dialect, tt.prefix+tt.body)
		if record[tt.prefix-1]&0x80 != 0 {
			t.Fatalf("the prefix of a body of %d bytes is % x", tt.body, record[:tt.prefix])
		}
		for cut := range tt.prefix + 1 {
			p.write(append(message(opBinary, record[:cut]), message(opBinary, record[cut:])...))
			p.expect(answer)
		}
	}
	p.write(message(opBinary, []byte{0x82, 0x80, 0x00, 0x91, 0x06})) // longer than need be, and still two
	p.works()
}

func TestRecordWithoutItsPrefix(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	p := join(t, i, packDialect{}, hubPath)
	p.write(message(opBinary, []byte{0x91, 0x06})) // a ping, or the length 785
	p.stillOpen()
	p.write(message(opBinary, make([]byte, 784)))
	p.stillOpen()
	p.write(message(opBinary, make([]byte, 1)))
	p.expectGone(closed(""))
}

func TestLyingLengths(t *testing.T) {
	limit := tooLarge(hub.DefaultMaximumReceiveMessageSize)
	i := start(t, server.Config{})
	invocation := func(tail ...byte) []byte { // of Echo, with the arguments as given
		return packed(append([]byte{0x95, 0x01, 0x80, 0xa1, '1', 0xa4, 'E', 'c', 'h', 'o'}, tail...))
	}
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"prefix of 2 GB", []byte{0xff, 0xff, 0xff, 0xff, 0x07}, limit},
		{"prefix one above the limit", []byte{0xfe, 0xff, 0x01}, limit},
		{"prefix above 2 GB", []byte{0x80, 0x80, 0x80, 0x80, 0x08}, closed("")},
		{"prefix without end", []byte{0xff, 0xff, 0xff, 0xff, 0xff}, closed("")},
		{"record of 4,294,967,295 elements", packed([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}), closed("")},
		{"4,294,967,295 arguments", invocation(0xdd, 0xff, 0xff, 0xff, 0xff), closed("")},
		{"argument of 4,294,967,295 elements", invocation(0x91, 0xdd, 0xff, 0xff, 0xff, 0xff), closed("")},
		{"argument of 4,294,967,295 members", invocation(0x91, 0xdf, 0xff, 0xff, 0xff, 0xff), closed("")},
		{"text of 4,294,967,295 bytes", invocation(0x91, 0xdb, 0xff, 0xff, 0xff, 0xff, 'x'), closed("")},
		{"data of 4,294,967,295 bytes", invocation(0x91, 0xc6, 0xff, 0xff, 0xff, 0xff, 'x'), closed("")},
		{"extension of 4,294,967,295 bytes", invocation(0x91, 0xc9, 0xff, 0xff, 0xff, 0xff, 1, 'x'), closed("")},
		{"4,294,967,295 headers", packed([]byte{0x95, 0x01, 0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0, 0xa1, 'x', 0x90}), closed("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := join(t, i, packDialect{}, hubPath)
			p.works()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			p.write(message(opBinary, tt.bytes))
			p.expect(tt.want, "close 1000")
			if took := time.Since(began); took > grace {
				t.Errorf("took %v, want at once", took)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("allocated %d bytes for a length that is a lie", n)
			}
		})
	}
}

func TestBrokenFrames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bytes []byte
	}{
		{"a frame without a mask", []byte{bitFin | opText, 1, 'x'}},
		{"a reserved bit", message(0x40|opText, []byte("x"))},
		{"a reserved opcode", message(0x3, []byte("x"))},
		{"a reserved control opcode", message(0xb, []byte("x"))},
		{"a continuation of nothing", message(opContinuation, []byte("x"))},
		{"a message inside another one", append(frame(opText, []byte("x")), message(opText, []byte("x"))...)},
		{"a ping in two frames", frame(opPing, []byte("x"))},
		{"a ping of 126 bytes", message(opPing, make([]byte, 126))},
		{"a negative length", []byte{bitFin | opBinary, bitMask | 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5}},
		{"a close frame of one byte", message(opClose, []byte{3})},
		{"a close frame with a status that may not be sent", closeFrame(1005)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			i := tuned(t, func(o *hub.Options) { o.CloseTimeout = 200 * time.Millisecond }, l.watch)
			p := join(t, i, jsonDialect{}, hubPath)
			p.works()
			p.write(tt.bytes)
			for { // a Close record may come first
				f := p.next()
				if f.op == opClose {
					if f.status() != 1002 {
						t.Errorf("status %d, want 1002", f.status())
					}
					break
				}
			}
			p.expectEnd(patience)
			i.empty(t, grace)
			l.expect(t, 1, 1)
		})
	}
}
