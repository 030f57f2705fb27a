package e2e

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// size returns the count that a test uses: the full one when SWITCHBOARD_LONG
// is set.
func size(normal, full int) int {
	if os.Getenv("SWITCHBOARD_LONG") != "" {
		return full
	}
	return normal
}

// pollInterval is how often eventually looks.
const pollInterval = 10 * time.Millisecond

// eventually polls until wrong returns nothing, and fails the test with what it
// said last when that takes too long.
func eventually(t testing.TB, limit time.Duration, wrong func() string) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		text := wrong()
		if text == "" {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("after %v: %s", limit, text)
		}
	}
}

// within fails the test, with all stacks, if f takes longer than the limit.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	select {
	case <-done:
	case <-deadline.C:
		stacks := make([]byte, 4<<20)
		t.Fatalf("%s takes longer than %v\n%s", what, limit, stacks[:runtime.Stack(stacks, true)])
	}
}

// pause lets scenario time pass: the delay of a client or a network, never a
// wait for something to have happened.
func pause(t testing.TB, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// heapInUse is what is reachable, in bytes.
func heapInUse() uint64 {
	for range 3 { // pools are emptied by the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A footprint is what a process holds.
type footprint struct {
	goroutines int
	heap       uint64
}

// measure takes the footprint of this process.
func measure() footprint { return footprint{runtime.NumGoroutine(), heapInUse()} }

const (
	// heapTolerance is how much more than before a process may hold, in percent.
	heapTolerance = 5
	// heapNoise is what it may hold besides: timers, pools and maps that have
	// grown to their size, in bytes. What leaks per connection or name is more.
	heapNoise = 128 << 10
)

// expectSame fails the test unless the process comes back to its footprint: the
// goroutines exactly, the heap within its tolerance.
func (before footprint) expectSame(t testing.TB) (after footprint) {
	t.Helper()
	eventually(t, 15*time.Second, func() string {
		if n := runtime.NumGoroutine(); n != before.goroutines {
			stacks := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, want %d\n%s", n, before.goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		return ""
	})
	eventually(t, 5*time.Second, func() string {
		after = measure()
		if after.heap > before.heap+before.heap*heapTolerance/100+heapNoise {
			return fmt.Sprintf("%d bytes in use, want at most %d %% and %d more than %d", after.heap, heapTolerance, heapNoise, before.heap)
		}
		return ""
	})
	return after
}
