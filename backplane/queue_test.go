package backplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func contents(q *publishQueue, n, bytes int) []string {
	var got []string
	for _, m := range q.peek(nil, n, bytes) {
		got = append(got, m.channel)
	}
	return got
}

func fill(t *testing.T, q *publishQueue, channels ...string) {
	t.Helper()
	for _, channel := range channels {
		if err := q.put(t.Context(), message{channel: channel}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueuePeek(t *testing.T) {
	const one = messageOverhead + 1
	for _, test := range []struct {
		name     string
		n, bytes int
		want     []string
	}{
		{"gives all", 10, 1000, []string{"a", "b", "c"}},
		{"gives as many as asked", 2, 1000, []string{"a", "b"}},
		{"gives as many as fit", 10, 2*one + 1, []string{"a", "b"}},
		{"gives one that is too large", 10, 1, []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newPublishQueue(1000)
			fill(t, q, "a", "b", "c")
			if got := contents(q, test.n, test.bytes); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			q.drop(1)
			if got := contents(q, 10, 1000); !slices.Equal(got, []string{"b", "c"}) {
				t.Errorf("got %q after drop, want the rest", got)
			}
		})
	}
}

func TestQueueKeepsOrderWhileItTurns(t *testing.T) {
	q := newPublishQueue(1 << 20)
	next, expected := 0, 0
	for round := range 200 {
		for range round % 37 {
			fill(t, q, fmt.Sprint(next))
			next++
		}
		batch := q.peek(nil, round%23, 1<<20)
		for _, m := range batch {
			if want := fmt.Sprint(expected); m.channel != want {
				t.Fatalf("got %q, want %q", m.channel, want)
			}
			expected++
		}
		q.drop(len(batch))
	}
	if n, bytes, _ := q.load(); n != next-expected || (n == 0) != (bytes == 0) {
		t.Errorf("%d messages, %d bytes left, want %d messages", n, bytes, next-expected)
	}
	for n, _, _ := q.load(); n > 0; n, _, _ = q.load() {
		q.drop(1)
	}
	if n, bytes, _ := q.load(); n != 0 || bytes != 0 {
		t.Errorf("%d messages, %d bytes in an empty queue", n, bytes)
	}
}

func TestQueueFull(t *testing.T) {
	for _, test := range []struct {
		name string
		free func(q *publishQueue, cancel context.CancelFunc) // after a second
		want error
		wait time.Duration
	}{
		{"waits for room", func(q *publishQueue, _ context.CancelFunc) { q.drop(1) }, nil, time.Second},
		{"waits for its context", func(_ *publishQueue, cancel context.CancelFunc) { cancel() }, context.Canceled, time.Second},
		{"waits until Redis is declared away", func(q *publishQueue, _ context.CancelFunc) { q.set(gateShut, false) }, ErrUnavailable, time.Second},
		{"waits until the end", func(q *publishQueue, _ context.CancelFunc) { q.set(gateClosed, true) }, ErrClosed, time.Second},
		{"waits no longer than the limit", func(*publishQueue, context.CancelFunc) {}, ErrUnavailable, waitLimit},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newPublishQueue(2 * (messageOverhead + 1))
				fill(t, q, "a", "b")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, func() { test.free(q, cancel) })
				began := time.Now()
				if err := q.put(ctx, message{channel: "c"}); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if waited := time.Since(began); waited != test.wait {
					t.Errorf("waited %v, want %v", waited, test.wait)
				}
			})
		})
	}
}

func TestQueueGates(t *testing.T) {
	q := newPublishQueue(1000)
	fill(t, q, "a", "b")
	rest := q.set(gateShut, false)
	if len(rest) != 2 || rest[0].channel != "a" || rest[1].channel != "b" {
		t.Errorf("handed back %v, want a and b", rest)
	}
	if err := q.put(t.Context(), message{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("put while shut: %v, want ErrUnavailable", err)
	}
	q.set(gateOpen, false)
	fill(t, q, "c")
	if rest := q.set(gateClosed, true); rest != nil {
		t.Errorf("handed back %v, want it kept", rest)
	}
	if err := q.put(t.Context(), message{}); !errors.Is(err, ErrClosed) {
		t.Errorf("put while closed: %v, want ErrClosed", err)
	}
	if got := contents(q, 10, 1000); !slices.Equal(got, []string{"c"}) {
		t.Errorf("got %q, want c", got)
	}
}

func TestPublishDoesNotAllocate(t *testing.T) {
	q := newPublishQueue(1 << 20)
	p := newPublisher(&link{r: &Redis{opt: Options{ChannelPrefix: "prefix:"}}})
	payload := make([]byte, 200)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		for range 50 {
			if err := q.put(ctx, message{channel: "room", payload: payload}); err != nil {
				t.Error(err)
			}
		}
		p.batch = q.peek(p.batch[:0], 512, 64<<10)
		p.fill()
		if !bytes.Equal(p.slots[0].channel, []byte("prefix:room")) {
			t.Error("wrong channel")
		}
		q.drop(len(p.batch))
		p.release()
	}); n != 0 {
		t.Errorf("%v allocations for 50 messages, want 0", n)
	}
}
