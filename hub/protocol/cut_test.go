package protocol

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// stream is what a client might send: one record of each type.
func stream(tb testing.TB, p Protocol) (whole []byte, records [][]byte) {
	tb.Helper()
	add := func(b []byte, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		records = append(records, b)
		whole = append(whole, b...)
	}
	add(p.AppendInvocation(nil, "1", "Echo", []any{text128, 42, nil}, "s1", "s2"))
	add(p.AppendInvocation(nil, "", "Log", nil))
	add(p.AppendStreamInvocation(nil, "2", "Counter", []any{1.5}))
	add(p.AppendStreamItem(nil, "s1", []string{"a\x1eb", "ü"}))
	add(p.AppendResult(nil, "3", nil))
	add(p.AppendVoid(nil, "s1"), nil)
	add(p.AppendError(nil, "4", "no"), nil)
	add(p.AppendCancelInvocation(nil, "2"), nil)
	add(p.AppendPing(nil), nil)
	add(p.AppendAck(nil, 1<<40), nil)
	add(p.AppendSequence(nil, 1), nil)
	add(p.AppendClose(nil, "bye", true), nil)
	return whole, records
}

func TestCutByteByByte(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.Name(), func(t *testing.T) {
			whole, want := stream(t, p)
			var buffer []byte
			for _, b := range whole {
				buffer = append(buffer, b)
				body, size, err := p.Cut(buffer, 1024)
				if err != nil {
					t.Fatal(err)
				}
				if size == 0 {
					continue
				}
				if len(want) == 0 || !bytes.Equal(buffer[:size], want[0]) || size != len(buffer) {
					t.Fatalf("got record %q, want %q", buffer[:size], want[0])
				}
				var m, again Message
				if err := p.Parse(body, &m); err != nil {
					t.Fatal(err)
				}
				encoded, err := encodeMessage(p, &m)
				if err != nil || !bytes.Equal(encoded, want[0]) {
					t.Errorf("encoding again: got %q, %v; want %q", encoded, err, want[0])
				}
				if err := p.Parse(mustCut(t, p, encoded), &again); err != nil || !sameMessage(&m, &again) {
					t.Errorf("decoding again: got %+v, %v; want %+v", again, err, m)
				}
				buffer, want = nil, want[1:]
			}
			if len(want) > 0 {
				t.Errorf("%d records did not come out", len(want))
			}
		})
	}
}

func mustCut(tb testing.TB, p Protocol, record []byte) []byte {
	tb.Helper()
	body, size, err := p.Cut(record, 0)
	if err != nil || size != len(record) {
		tb.Fatalf("Cut of %q: got size %d, error %v", record, size, err)
	}
	return body
}

func TestCutLimit(t *testing.T) {
	const tooLong = "The maximum message size of 100B was exceeded. The message size can be configured in AddHubOptions."
	json := func(n int) []byte { return []byte(strings.Repeat(" ", n-1) + "\x1e") }
	pack := func(n int) []byte { return append([]byte{byte(n - 1)}, make([]byte, n-1)...) }
	for _, tt := range []struct {
		name   string
		p      Protocol
		b      []byte
		size   int
		tooBig bool
	}{
		{"takes a JSON record of the limit", JSON{}, json(100), 100, false},
		{"refuses a JSON record one byte longer", JSON{}, json(101), 0, true},
		{"refuses 100 bytes without separator", JSON{}, json(101)[:100], 0, true},
		{"waits at 99 bytes without separator", JSON{}, json(101)[:99], 0, false},
		{"takes many small JSON records in a big chunk", JSON{}, bytes.Repeat([]byte("{\"type\":6}\x1e"), 50), 11, false},
		{"takes a MessagePack record of the limit", MessagePack{}, pack(100), 100, false},
		{"refuses a MessagePack record one byte longer", MessagePack{}, pack(101), 0, true},
		{"refuses it by its prefix", MessagePack{}, pack(101)[:1], 0, true},
		{"refuses a prefix of 2 GB", MessagePack{}, []byte{0xff, 0xff, 0xff, 0xff, 0x07}, 0, true},
		{"takes many small MessagePack records in a big chunk", MessagePack{}, bytes.Repeat([]byte{2, 0x91, 6}, 50), 3, false},
		{"waits for the rest of a prefix", MessagePack{}, []byte{0xff}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, size, err := tt.p.Cut(tt.b, 100)
			if size != tt.size {
				t.Errorf("got size %d, want %d", size, tt.size)
			}
			if !tt.tooBig {
				if err != nil {
					t.Errorf("got error %v", err)
				}
				return
			}
			wantError(t, err, ReasonTooLarge, tooLong)
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v is not ErrTooLarge", err)
			}
		})
	}
}

func TestCutPrefixes(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 70000, 1<<21 - 1, 1 << 21} {
		record := endRecord(append([]byte{0xaa, 0}, make([]byte, n)...), 1)
		body, size, err := MessagePack{}.Cut(record[1:], 0)
		if err != nil || size != len(record)-1 || len(body) != n {
			t.Errorf("body of %d bytes: got %d, size %d, error %v", n, len(body), size, err)
		}
	}
	for _, prefix := range []string{"80 80 80 80 08", "ff ff ff ff ff", "ff ff ff ff 0f"} {
		_, _, err := MessagePack{}.Cut(unhex(t, prefix), 0)
		wantError(t, err, ReasonFraming, "Messages over 2GB in size are not supported.")
	}
	// The longest there may be, with nothing but its prefix here: wait.
	if _, size, err := (MessagePack{}).Cut(unhex(t, "ff ff ff ff 07"), 0); size != 0 || err != nil {
		t.Errorf("got size %d, error %v; want to wait", size, err)
	}
	if errors.Is(&Error{Reason: ReasonFraming}, ErrTooLarge) {
		t.Error("every error is ErrTooLarge")
	}
}

// TestHostileBodies feeds what kills careless decoders: counts without
// elements and nesting without end.
func TestHostileBodies(t *testing.T) {
	const deep = 10_000_000
	for _, tt := range []struct {
		name string
		p    Protocol
		body []byte
	}{
		{"array of 4 billion", MessagePack{}, unhex(t, "dd ffffffff")},
		{"map of 4 billion", MessagePack{}, unhex(t, "df ffffffff")},
		{"argument array of 4 billion", MessagePack{}, unhex(t, "96 01 80 c0 a16d dd ffffffff")},
		{"argument that is a map of 4 billion", MessagePack{}, unhex(t, "96 01 80 c0 a16d 91 df ffffffff 90")},
		{"headers of 4 billion", MessagePack{}, unhex(t, "96 01 df ffffffff")},
		{"string of 4 GB", MessagePack{}, unhex(t, "96 01 80 db ffffffff 78")},
		{"binary of 4 GB", MessagePack{}, unhex(t, "94 02 80 a131 c6 ffffffff 78")},
		{"extension of 4 GB", MessagePack{}, unhex(t, "94 02 80 a131 c9 ffffffff ff 78")},
		{"arrays 10 million deep", MessagePack{}, bytes.Repeat([]byte{0x91}, deep)},
		{"maps 10 million deep", MessagePack{}, bytes.Repeat([]byte{0x81}, deep)},
		{"array headers of 5 bytes, deep", MessagePack{}, bytes.Repeat(unhex(t, "dd ffffffff"), deep/5)},
		{"JSON arrays 10 million deep", JSON{}, bytes.Repeat([]byte("["), deep)},
		{"JSON objects 10 million deep", JSON{}, bytes.Repeat([]byte(`{"":`), deep/4)},
		{"JSON argument 10 million deep", JSON{}, append([]byte(`{"type":1,"arguments":`), bytes.Repeat([]byte("["), deep)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tt.p.Parse(tt.body, &m)
			_, anyErr := Decode[any](tt.p, tt.body)
			_, structErr := Decode[point](tt.p, tt.body)
			_, valueErr := Decode[[]Value](tt.p, tt.body)
			runtime.ReadMemStats(&after)
			for _, err := range []error{err, anyErr, structErr, valueErr} {
				if err == nil {
					t.Error("got no error")
				}
			}
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<10); got > most {
				t.Errorf("allocated %d bytes, want at most %d", got, most)
			}
		})
	}
}
