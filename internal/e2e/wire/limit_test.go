package wire

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// limit is the receive limit of these tests: the default.
const limit = hub.DefaultMaximumReceiveMessageSize

// sized returns a call of Echo that has exactly n bytes, framing included, and
// its answer.
func sized(t testing.TB, d dialect, n int) (record []byte, answer string) {
	t.Helper()
	size := n
	for range 3 { // what frames the text grows with it
		record = d.encode(call("1", "Echo", "["+text(size)+"]"))
		size -= len(record) - n
	}
	if len(record) != n {
		t.Fatalf("no record has %d bytes", n)
	}
	return record, result("1", text(size))
}

func TestRecordOfExactlyTheLimit(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	onBoth(t, func(t *testing.T, d dialect) {
		p := join(t, i, d, hubPath)
		record, answer := sized(t, d, limit)
		for _, b := range [][]byte{
			message(d.opcode(), record),
			fragments(d.opcode(), record, 1000),
			message(d.opcode(), slices.Concat(record, record, record)),
		} {
			p.write(b)
			p.expect(answer)
		}
		p.expect(answer, answer)
		p.works()
	})
}

func TestTooLargeRecordIsExplained(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d dialect) {
		above, _ := sized(t, d, limit+1)
		far, _ := sized(t, d, 10*limit)
		for _, tt := range []struct {
			name  string
			bytes []byte
		}{
			{"one byte above", message(d.opcode(), above)},
			{"ten times", message(d.opcode(), far)},
			{"ten times in forty frames", fragments(d.opcode(), far, len(far)/40+1)},
			{"without its end", message(d.opcode(), above[:limit])},
			{"behind a good one", message(d.opcode(), append(d.encode(ping), above...))},
		} {
			t.Run(tt.name, func(t *testing.T) {
				var l ledger
				i := start(t, server.Config{}, l.watch)
				p := join(t, i, d, hubPath)
				id := p.whoAmI().ConnectionID
				p.write(tt.bytes)
				p.expectGone(tooLarge(limit))
				i.empty(t, grace)
				l.expect(t, 1, 1)
				if n := i.ends(hub.ErrMessageTooBig); n != 1 {
					t.Errorf("%d connections counted as too big, want 1", n)
				}
				lines := i.log.lines(id)
				if len(lines) != 1 {
					t.Fatalf("%d lines about the connection, want 1: %q", len(lines), lines)
				}
				for _, want := range []string{"level=WARN", "conn=" + id, "reason=message_too_big", fmt.Sprint(limit)} {
					if !strings.Contains(lines[0], want) {
						t.Errorf("%q is not in the log: %s", want, lines[0])
					}
				}
			})
		}
	})
}

func TestOtherReceiveLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                 string
		option, works, fails int
	}{
		{"small", 200, 200, 201},
		{"large", 100_000, 100_000, 100_001},
		{"none", -1, 400_000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := tuned(t, func(o *hub.Options) { o.MaximumReceiveMessageSize = tt.option })
			onBoth(t, func(t *testing.T, d dialect) {
				p := join(t, i, d, hubPath)
				record, answer := sized(t, d, tt.works)
				p.write(message(d.opcode(), record))
				p.expect(answer)
				if tt.fails > 0 {
					record, _ = sized(t, d, tt.fails)
					p.write(message(d.opcode(), record))
					p.expectGone(tooLarge(tt.option))
				}
			})
		})
	}
}

// Whoever has an unfinished record may make the server hold the limit, and not
// several times that.
func TestUnfinishedRecordsHoldLittleMemory(t *testing.T) {
	peers := full(100, 1000)
	for _, d := range dialects() {
		t.Run(d.name(), func(t *testing.T) {
			i := start(t, server.Config{})
			record, _ := sized(t, d, limit)
			unfinished := fragments(d.opcode(), record[:limit-1], 1000)
			unfinished = unfinished[:len(unfinished):len(unfinished)]
			var all []*peer
			for range peers {
				p := join(t, i, d, hubPath)
				p.works()
				all = append(all, p)
			}
			before := heap()
			for _, p := range all {
				p.write(unfinished)
			}
			for _, p := range all {
				p.stillOpen()
			}
			if each := (heap() - before) / peers; each > 2*limit {
				t.Errorf("an unfinished record holds %d bytes, want at most %d", each, 2*limit)
			}
			for _, p := range all {
				p.write(message(d.opcode(), record[limit-1:]))
				p.record(time.Now().Add(patience))
				p.works()
			}
			if each := (heap() - before) / peers; each > limit/4 {
				t.Errorf("a finished record still holds %d bytes", each)
			}
		})
	}
}

// heap is what is reachable, in bytes.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one empties the pools only half
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A message without end is cut off at the limit, and while it lasts the server
// keeps nothing of what it has no use for.
func TestMessageWithoutEnd(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.name(), func(t *testing.T) {
			i := tuned(t, func(o *hub.Options) { o.CloseTimeout = 300 * time.Millisecond })
			p := join(t, i, d, hubPath)
			first := frame(d.opcode(), []byte{0xff, 0xff, 0xff, 0xff, 0x07})
			if d.name() == "json" {
				first = frame(d.opcode(), []byte("{"))
			}
			before := heap()
			var peak atomic.Int64
			written := make(chan int)
			go func() { // until the server has had enough
				piece := frame(opContinuation, make([]byte, 1024))
				n := 0
				for err := p.tryWrite(first); err == nil; n++ {
					if n%1000 == 0 {
						peak.Store(max(peak.Load(), int64(heap()-before)))
					}
					err = p.tryWrite(piece)
				}
				written <- n
			}()
			p.expect(tooLarge(limit), "close 1000")
			p.expectEnd(patience)
			if n := <-written; n < limit/1024-1 && d.name() == "json" {
				t.Errorf("cut off after %d kB, below the limit", n)
			}
			if peak.Load() > 1<<20 {
				t.Errorf("%d bytes were held for one message", peak.Load())
			}
			i.empty(t, grace)
		})
	}
}
