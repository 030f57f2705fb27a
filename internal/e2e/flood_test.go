package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
)

// echoLimit is what 99 of 100 calls of an innocent client may take.
const echoLimit = 500 * time.Millisecond

// An echoer is an innocent client that measures how long its calls take.
type echoer struct {
	client *client.Client
	took   []time.Duration
}

// echo makes one call.
func (e *echoer) echo(t testing.TB) {
	t.Helper()
	began := time.Now()
	if _, err := client.Invoke[string](t.Context(), e.client, "Echo", "hello"); err != nil {
		t.Fatal(err)
	}
	e.took = append(e.took, time.Since(began))
}

// p99 is the time that 99 of 100 calls did not exceed.
func (e *echoer) p99() time.Duration {
	slices.Sort(e.took)
	return e.took[(len(e.took)-1)*99/100]
}

// waitFor is a method that ends when the gate is closed.
func waitFor(gate <-chan struct{}) func(context.Context, *hub.Caller, string) error {
	return func(ctx context.Context, _ *hub.Caller, _ string) error {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil
	}
}

// A client that calls faster than its methods run is not read any more: its
// calls wait where they come from, not in the hub.
func TestAFloodOfSlowCallsWaitsAtItsSender(t *testing.T) {
	const calls, bytes = 900, 16 << 10
	const mostTaken = calls * bytes / 2 // the hub's queue and both sockets' buffers
	gate := make(chan struct{})
	n := startNode(t, nodeConfig{prepare: func(h *hub.Hub) { h.Handle("Slow", hub.Action1(waitFor(gate))) }})
	innocent := &echoer{client: connect(t, client.Options{URL: n.url})}
	flooder := mustOpen(t, n.url, protocolOf(0))
	var written atomic.Int64
	var flood errgroup.Group
	flood.Go(func() error {
		payload := strings.Repeat("x", bytes)
		for range calls {
			if err := flooder.send("Slow", payload); err != nil {
				return err
			}
			written.Add(bytes)
		}
		return nil
	})
	// It is stuck when nothing moves for a while.
	const still = 50
	last, since := int64(-1), 0
	eventually(t, 20*time.Second, func() string {
		innocent.echo(t)
		if now := written.Load(); now != last {
			last, since = now, 0
		} else {
			since++
		}
		if since < still {
			return fmt.Sprintf("the flood goes on: %d bytes", last)
		}
		return ""
	})
	t.Logf("%d KiB were taken", last>>10)
	if last > mostTaken {
		t.Errorf("%d bytes of the flood were taken, want at most %d", last, mostTaken)
	}
	if queued := n.Stats().Records - uint64(len(innocent.took)); queued > hub.DefaultInvocationQueue+4 { // one runs, one waits for room, two are pings
		t.Errorf("%d calls were read, want what the queue holds", queued)
	}
	if p99 := innocent.p99(); p99 > echoLimit {
		t.Errorf("99 %% of the innocent client's calls took up to %v, want %v", p99, echoLimit)
	}
	close(gate)
	if err := flood.Wait(); err != nil {
		t.Error(err)
	}
	if err := flooder.call("Echo", "done"); err != nil {
		t.Errorf("after the flood: %v", err)
	}
	if got := n.Stats().Invocations; got < calls {
		t.Errorf("%d calls have run, want %d", got, calls)
	}
}

func TestAFloodOfBroadcastsLeavesOthersResponsive(t *testing.T) {
	const mostMemory = 100 << 20
	messages, readers := size(4000, 100000), size(10, 20)
	onOneAndTwo(t, func(t *testing.T, instances int) {
		here, there := startEnds(t, instances, nodeConfig{hub: hub.Options{KeepAliveInterval: time.Minute}})
		members := openMembers(t, there, readers, "g", 0)
		innocent := &echoer{client: connect(t, client.Options{URL: here.url})}
		flooder := mustOpen(t, here.url, protocolOf(1))
		args := make([]string, messages)
		for i := range args {
			args[i] = fmt.Sprint(i)
		}
		want := streams(t, args)
		innocent.echo(t)
		baseline := heapInUse()

		var flood errgroup.Group
		flood.Go(func() error {
			for _, a := range args {
				if err := flooder.send("Group", "g", a); err != nil {
					return err
				}
			}
			return nil
		})
		var cut atomic.Int64
		for i, p := range members {
			flood.Go(func() error {
				err := p.expectStream(want[p.proto.Name()])
				if errors.Is(err, io.EOF) {
					cut.Add(1)
				} else if err != nil {
					return fmt.Errorf("reader %d: %w", i, err)
				}
				return nil
			})
		}
		over := make(chan error, 1)
		go func() { over <- flood.Wait() }() // watchFlood waits for it
		most, err := watchFlood(t, innocent, over)
		if err != nil {
			t.Error(err)
		}
		// Readers who have lost the race against more than their queue holds may
		// be cut, but for no other reason.
		slow := there.Stats().Disconnects[hub.ErrSlowConsumer.Reason()]
		if int64(slow) != cut.Load() || slow > 0 && messages < hub.DefaultOutboundMessages {
			t.Errorf("%d readers were cut, %d as slow consumers", cut.Load(), slow)
		}
		if most > baseline+mostMemory {
			t.Errorf("%d bytes in use during the flood, want at most %d more than %d", most, mostMemory, baseline)
		}
		p99 := innocent.p99()
		t.Logf("99 %% of %d calls took up to %v; at most %d KiB in use", len(innocent.took), p99, most>>10)
		if p99 > echoLimit {
			t.Errorf("99 %% of the innocent client's calls took up to %v, want %v", p99, echoLimit)
		}
		eventually(t, 10*time.Second, func() string {
			if q := here.Stats().QueuedBytes + there.Stats().QueuedBytes; q != 0 {
				return fmt.Sprintf("%d bytes wait for clients", q)
			}
			return ""
		})
	})
}

// watchFlood has the innocent client call until the flood is over, and returns
// how many bytes were in use at most.
func watchFlood(t testing.TB, innocent *echoer, over <-chan error) (most uint64, err error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-over:
			return most, err
		case <-tick.C:
			innocent.echo(t)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
}
