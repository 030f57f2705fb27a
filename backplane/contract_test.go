package backplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/backplane/memory"
)

func TestDelivers(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		in := newInbox(t)
		large := strings.Repeat("x", 1<<20)
		channels := []string{"plain", "", "Größe *?[a]", "with\r\nlines\x00", strings.Repeat("n", 2048)}
		subscribe(t, a, in.deliver, channels...)
		var want []delivery
		for i, channel := range channels {
			for _, payload := range []string{"", "text", "\x00\xff\r\n$3", fmt.Sprint(i), large} {
				publish(t, b, channel, payload)
				want = append(want, delivery{channel, payload})
			}
		}
		for i, got := range in.wait(len(want)) {
			if got != want[i] {
				t.Errorf("delivery %d: got %.40q on %.40q, want %.40q on %.40q", i,
					got.payload, got.channel, want[i].payload, want[i].channel)
			}
		}
	})
}

func TestJoinIsAFence(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		const rounds, concurrent = 1000, 50
		var group sync.WaitGroup
		for worker := range concurrent {
			group.Go(func() {
				channel := fmt.Sprint("room-", worker)
				arrived := make(chan string, 1)
				deliver := func(_ string, payload []byte) { arrived <- string(payload) }
				for round := range rounds / concurrent {
					if err := a.Subscribe(t.Context(), deliver, channel); err != nil {
						t.Error(err)
						return
					}
					want := fmt.Sprint(round)
					if err := b.Publish(t.Context(), channel, []byte(want)); err != nil {
						t.Error(err)
						return
					}
					select {
					case got := <-arrived:
						if got != want {
							t.Errorf("got %q, want %q", got, want)
						}
					case <-time.After(patience):
						t.Errorf("%s: message %d published after Subscribe returned was not delivered", channel, round)
						return
					}
					if err := a.Unsubscribe(t.Context(), channel); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	})
}

func TestKeepsTheOrderOfOnePublisher(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		const messages = 10_000
		local, remote := newInbox(t), newInbox(t)
		subscribe(t, a, local.deliver, "one", "two")
		subscribe(t, b, remote.deliver, "one", "two")
		var want []delivery
		for i := range messages {
			d := delivery{[]string{"one", "two"}[i%2], fmt.Sprint(i)}
			publish(t, a, d.channel, d.payload)
			want = append(want, d)
		}
		if got := local.wait(messages); !slices.Equal(got, want) {
			t.Error("the publishing instance got another order")
		}
		if got := remote.wait(messages); !slices.Equal(got, want) {
			t.Error("the other instance got another order")
		}
	})
}

func TestGivesAllOneOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		instances := []instance{connect(), connect(), connect()}
		const messages = 3000
		var inboxes []*inbox
		for _, b := range instances {
			in := newInbox(t)
			subscribe(t, b, in.deliver, "room")
			inboxes = append(inboxes, in)
		}
		var group sync.WaitGroup
		for i, b := range instances {
			group.Go(func() {
				for n := range messages {
					if err := b.Publish(t.Context(), "room", fmt.Appendf(nil, "%d:%d", i, n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		first := inboxes[0].wait(messages * len(instances))
		for _, in := range inboxes[1:] {
			if got := in.wait(messages * len(instances)); !slices.Equal(got, first) {
				t.Error("two instances got different orders")
			}
		}
	})
}

func TestLosesNothingInABurst(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		const publishers, messages = 4, 5000
		in := newInbox(t)
		subscribe(t, a, in.deliver, "0", "1", "2", "3")
		payload := strings.Repeat(".", 200)
		var group sync.WaitGroup
		for p := range publishers {
			group.Go(func() {
				for n := range messages {
					if err := b.Publish(t.Context(), fmt.Sprint(p), fmt.Appendf(nil, "%d%s", n, payload)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		next := map[string]int{}
		for _, d := range in.wait(publishers * messages) {
			if want := fmt.Sprint(next[d.channel], payload); d.payload != want {
				t.Fatalf("channel %s: got %.10q, want %.10q", d.channel, d.payload, want)
			}
			next[d.channel]++
		}
	})
}

func TestCountsSubscriptions(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		first, second := newInbox(t), newInbox(t)
		subscribe(t, a, first.deliver, "room")
		subscribe(t, a, second.deliver, "room", "other")
		publish(t, b, "room", "two subscriptions")
		if err := a.Unsubscribe(t.Context(), "room"); err != nil {
			t.Error(err)
		}
		publish(t, b, "room", "one left")
		want := []string{"two subscriptions", "one left"}
		if got := first.payloads(2); !slices.Equal(got, want) {
			t.Errorf("the first subscriber got %q, want %q", got, want)
		}
		if err := a.Unsubscribe(t.Context(), "room"); err != nil {
			t.Error(err)
		}
		publish(t, b, "room", "none left")
		publish(t, b, "other", "marker")
		if got := second.payloads(1); !slices.Equal(got, []string{"marker"}) {
			t.Errorf("the second subscriber got %q, want only the marker", got)
		}
		if got := first.payloads(2); len(got) != 2 {
			t.Errorf("a message arrived after the last Unsubscribe: %q", got)
		}
	})
}

func TestUnsubscribeChecksTheCount(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a := connect()
		if err := a.Unsubscribe(t.Context()); err != nil {
			t.Errorf("an empty list: %v", err)
		}
		subscribe(t, a, ignore)
		subscribe(t, a, ignore, "known", "kept")
		err := a.Unsubscribe(t.Context(), "unknown", "known")
		if !errors.Is(err, backplane.ErrNotSubscribed) && !errors.Is(err, memory.ErrNotSubscribed) {
			t.Errorf("error %v, want ErrNotSubscribed", err)
		}
		eventually(t, "known is left, kept is not", func() bool {
			known, err1 := a.Receivers(t.Context(), "known")
			kept, err2 := a.Receivers(t.Context(), "kept")
			return known == 0 && kept == 1 && err1 == nil && err2 == nil
		})
		if err := a.Subscribe(t.Context(), nil, "kept"); err == nil {
			t.Error("a nil deliver function was accepted")
		}
	})
}

func TestReceivers(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b, c := connect(), connect(), connect()
		subscribe(t, a, ignore, "room", "mine")
		subscribe(t, b, ignore, "room")
		for _, test := range []struct {
			channel string
			want    int
		}{{"room", 2}, {"mine", 1}, {"none", 0}} {
			got, err := c.Receivers(t.Context(), test.channel)
			if err != nil || got != test.want {
				t.Errorf("Receivers(%q): %d, %v, want %d", test.channel, got, err, test.want)
			}
			got, err = c.PublishConfirmed(t.Context(), test.channel, []byte("x"))
			if err != nil || got != test.want {
				t.Errorf("PublishConfirmed(%q): %d, %v, want %d", test.channel, got, err, test.want)
			}
		}
	})
}

func TestConfirmedMessagesKeepTheirPlace(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		in := newInbox(t)
		subscribe(t, a, in.deliver, "room")
		var want []string
		for i := range 300 {
			publish(t, b, "room", fmt.Sprint(i))
			if _, err := b.PublishConfirmed(t.Context(), "room", fmt.Append(nil, i, "!")); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint(i), fmt.Sprint(i, "!"))
		}
		if got := in.payloads(len(want)); !slices.Equal(got, want) {
			t.Error("messages overtook each other")
		}
	})
}

func TestJoinAndLeaveMayMeet(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		const workers, rounds = 8, 200
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range rounds {
					if err := a.Subscribe(t.Context(), ignore, "x", "y"); err != nil {
						t.Error(err)
					}
					if err := a.Unsubscribe(t.Context(), "y", "x"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		eventually(t, "nobody is subscribed", func() bool {
			x, err1 := b.Receivers(t.Context(), "x")
			y, err2 := b.Receivers(t.Context(), "y")
			return x+y == 0 && err1 == nil && err2 == nil
		})
		in := newInbox(t)
		subscribe(t, a, in.deliver, "x")
		publish(t, b, "x", "still works")
		in.wait(1)
	})
}

func TestEndsWithItsContext(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		states := make(chan backplane.Link, 10)
		b.OnLink(func(state backplane.Link) { states <- state })
		subscribe(t, b, ignore, "room")
		if state := <-states; !state.Up || state.Generation != 1 || state.Err != nil {
			t.Errorf("state %+v, want up, generation 1", state)
		}
		b.(*running).stop()
		if state := <-states; state.Up || state.Err == nil {
			t.Errorf("state %+v, want down and why", state)
		}
		if b.Linked() {
			t.Error("linked after the end")
		}
		for _, test := range []struct {
			name string
			call func() error
		}{
			{"Publish", func() error { return b.Publish(t.Context(), "room", nil) }},
			{"PublishConfirmed", func() error { _, err := b.PublishConfirmed(t.Context(), "room", nil); return err }},
			{"Subscribe", func() error { return b.Subscribe(t.Context(), ignore, "late") }},
			{"Receivers", func() error { _, err := b.Receivers(t.Context(), "room"); return err }},
		} {
			err := test.call()
			if u, ok := errors.AsType[unavailable](err); !ok || !u.Unavailable() {
				t.Errorf("%s after the end: %v, want an error that says unavailable", test.name, err)
			}
		}
		eventually(t, "the subscription is gone", func() bool {
			n, err := a.Receivers(t.Context(), "room")
			return n == 0 && err == nil
		})
		if err := b.Run(t.Context()); !errors.Is(err, backplane.ErrRunTwice) && !errors.Is(err, memory.ErrRunTwice) {
			t.Errorf("second Run: %v", err)
		}
	})
}

func TestSharedKey(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		subscribe(t, a, ignore, "up")
		subscribe(t, b, ignore, "up")
		keyOf := func(b instance, name string) backplane.SharedKey {
			key, err := b.SharedKey(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		one, _ := keyOf(a, "token-key").Keys()
		two, _ := keyOf(b, "token-key").Keys()
		if len(one) != 32 || !bytes.Equal(one, two) {
			t.Errorf("two instances have keys of %d and %d bytes, equal: %v; want equal ones of 32", len(one), len(two), bytes.Equal(one, two))
		}
		if other, _ := keyOf(a, "other").Keys(); bytes.Equal(one, other) {
			t.Error("two names share a key")
		}
		if d := time.Since(keyOf(a, "token-key").Now()); d.Abs() > time.Minute {
			t.Errorf("Now is off by %v", d)
		}
	})
}

func TestANameHasOneOwner(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a, b := connect(), connect()
		subscribe(t, a, ignore, "up")
		subscribe(t, b, ignore, "up")
		claim := func(who instance, owner string, life time.Duration) bool {
			t.Helper()
			holder, err := who.Claim(t.Context(), "name", owner, life)
			if err != nil {
				t.Fatal(err)
			}
			return holder == owner
		}
		const life = 300 * time.Millisecond
		if !claim(a, "a", life) || !claim(a, "a", life) {
			t.Error("the owner does not get the name twice")
		}
		if claim(b, "b", life) {
			t.Error("the name has two owners")
		}
		eventually(t, "the name is free after its time", func() bool { return claim(b, "b", time.Minute) })
		if claim(a, "a", life) {
			t.Error("the name has two owners after its time")
		}
		for _, from := range []string{"a", "b"} { // of which b has it
			if err := a.HandOver(t.Context(), "name", from, "c"); err != nil {
				t.Fatal(err)
			}
			if got := claim(a, "c", life); got != (from == "b") {
				t.Errorf("handed over from %s: c has it is %v", from, got)
			}
		}
	})
}

func TestEndedContexts(t *testing.T) {
	overBoth(t, func(t *testing.T, connect func() instance) {
		a := connect()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Publish(ctx, "room", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Publish: %v, want %v", err, context.Canceled)
		}
		if _, err := a.PublishConfirmed(ctx, "room", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("PublishConfirmed: %v, want %v", err, context.Canceled)
		}
	})
}
