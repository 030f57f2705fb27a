package protocol

import (
	"testing"
	"time"
)

// wantAllocs pins how often f allocates on average.
func wantAllocs(t *testing.T, name string, want float64, f func()) {
	t.Helper()
	f() // what is made once, such as the room of a Message, is not counted
	if got := testing.AllocsPerRun(100, f); got != want {
		t.Errorf("%s: got %v allocations, want %v", name, got, want)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.Name(), func(t *testing.T) {
			record, err := p.AppendInvocation(nil, "12", "Echo", []any{text128})
			if err != nil {
				t.Fatal(err)
			}
			body := mustCut(t, p, record)
			wantAllocs(t, "Cut", 0, func() { _, _, err = p.Cut(record, 32768) })
			var m Message
			wantAllocs(t, "Parse", 0, func() { err = p.Parse(body, &m) })
			dst := make([]byte, 0, 1024)
			wantAllocs(t, "result", 0, func() {
				out := p.BeginResult(dst, "12")
				if out, err = Append(p, out, text128); err == nil {
					p.EndResult(out, 0)
				}
			})
			args := []any{text128, 1.5, nil, true}
			wantAllocs(t, "invocation", 0, func() { _, err = p.AppendInvocation(dst, "12", "Echo", args) })
			wantAllocs(t, "ping", 0, func() { p.AppendPing(dst) })
			wantAllocs(t, "error", 0, func() { p.AppendError(dst, "12", "no") })
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPlainValuesAreNotBoxed(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.Name(), func(t *testing.T) {
			pinValue(t, p, "string", 1, text128)
			pinValue(t, p, "empty string", 0, "")
			pinValue(t, p, "bool", 0, true)
			pinValue(t, p, "int", 0, 123456)
			pinValue(t, p, "uint64", 0, uint64(1<<63))
			pinValue(t, p, "float64", 0, 1234.5)
			pinValue(t, p, "float32", 0, float32(0.25))
			pinValue(t, p, "bytes", 1, []byte("0123456789"))
			pinValue(t, p, "time", 0, time.Unix(1700000000, 0).UTC())
			pinValue(t, p, "Value", 1, NewValue(p, mustAppend(t, p, text128)))
		})
	}
}

// pinValue pins the allocations of Append, none, and of Decode, those of the
// value itself.
func pinValue[T any](t *testing.T, p Protocol, name string, decoding float64, v T) {
	t.Helper()
	dst := make([]byte, 0, 1024)
	wantAllocs(t, "append "+name, 0, func() { _, _ = Append(p, dst, v) })
	raw := mustAppend(t, p, v)
	wantAllocs(t, "decode "+name, decoding, func() { _, _ = Decode[T](p, raw) })
}

func mustAppend[T any](tb testing.TB, p Protocol, v T) []byte {
	tb.Helper()
	raw, err := Append(p, nil, v)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}
