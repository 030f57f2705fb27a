package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/backplane/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect gives a running instance.
func connect(t *testing.T, broker *memory.Broker) *memory.Backplane {
	b := broker.Connect()
	run(t, b)
	return b
}

func run(t *testing.T, b *memory.Backplane) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func ignore(string, []byte) {}

func TestFullQueueMakesPublishWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New()
		slow, fast := broker.Connect(), connect(t, broker)
		delivered := 0
		if err := slow.Subscribe(t.Context(), func(string, []byte) { delivered++ }, "room"); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, memory.QueueBytes/4-1000)
		for range 4 {
			if err := fast.Publish(t.Context(), "room", payload); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := fast.Publish(t.Context(), "room", payload); !errors.Is(err, memory.ErrUnavailable) {
			t.Errorf("publish into a full queue: %v, want ErrUnavailable", err)
		}
		if waited := time.Since(began); waited != memory.WaitLimit {
			t.Errorf("waited %v, want %v", waited, memory.WaitLimit)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := fast.Publish(ctx, "room", payload); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("publish into a full queue: %v, want the context's error", err)
		}
		done := make(chan error)
		go func() { done <- fast.Publish(t.Context(), "room", payload) }()
		synctest.Wait()
		run(t, slow)
		if err := <-done; err != nil {
			t.Errorf("publish once there was room: %v", err)
		}
		synctest.Wait()
		if delivered != 5 {
			t.Errorf("%d deliveries, want 5", delivered)
		}
		if err := fast.Publish(t.Context(), "room", make([]byte, memory.QueueBytes)); !errors.Is(err, memory.ErrTooLarge) {
			t.Errorf("publish of too much: %v, want ErrTooLarge", err)
		}
	})
}

func TestSetLinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New()
		a, b := connect(t, broker), connect(t, broker)
		var got []string
		var states []bool
		a.OnLink(func(l memory.Link) { states = append(states, l.Up) })
		deliver := func(_ string, payload []byte) { got = append(got, string(payload)) }
		if err := a.Subscribe(t.Context(), deliver, "room"); err != nil {
			t.Fatal(err)
		}
		say := func(text string) {
			t.Helper()
			if err := b.Publish(t.Context(), "room", []byte(text)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		say("before")
		a.SetLinked(false)
		say("meanwhile")
		if a.Linked() {
			t.Error("a is linked")
		}
		for name, err := range map[string]error{
			"Publish":   a.Publish(t.Context(), "room", nil),
			"Subscribe": a.Subscribe(t.Context(), deliver, "later"),
		} {
			if !errors.Is(err, memory.ErrUnavailable) {
				t.Errorf("%s while cut off: %v, want ErrUnavailable", name, err)
			}
		}
		if n, err := b.Receivers(t.Context(), "room"); n != 0 || err != nil {
			t.Errorf("%d receivers, %v, want 0", n, err)
		}
		a.SetLinked(true)
		say("after")
		if n, err := b.Receivers(t.Context(), "later"); n != 1 || err != nil {
			t.Errorf("%d receivers of what was subscribed while cut off, %v, want 1", n, err)
		}
		broker.SetLinked(false)
		synctest.Wait()
		if a.Linked() || b.Linked() {
			t.Error("somebody is linked")
		}
		if want := []string{"before", "after"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if want := []bool{true, false, true, false}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

func TestEndDropsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New()
		a := connect(t, broker)
		ctx, cancel := context.WithCancel(t.Context())
		b := broker.Connect()
		go b.Run(ctx)
		if err := b.Subscribe(ctx, ignore, "room"); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if n, err := a.Receivers(t.Context(), "room"); n != 0 || err != nil {
			t.Errorf("%d receivers, %v, want 0", n, err)
		}
		if err := b.Publish(t.Context(), "room", nil); !errors.Is(err, memory.ErrClosed) || !errors.Is(err, memory.ErrUnavailable) {
			t.Errorf("Publish: %v, want ErrClosed, which is an ErrUnavailable", err)
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	broker := memory.New()
	p := broker.Connect()
	delivered := make(chan struct{}, 1024)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := p.Subscribe(ctx, func(string, []byte) { delivered <- struct{}{} }, "room"); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Publish(ctx, "room", payload); err != nil {
			b.Fatal(err)
		}
		<-delivered
	}
}
