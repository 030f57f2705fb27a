package backplane_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// healTime is the promise: after Redis is back everything works again within
// this time.
const healTime = 3 * time.Second

// watchLink returns what OnLink reports, as it comes.
func watchLink(r *running) <-chan backplane.Link {
	states := make(chan backplane.Link, 1000)
	r.OnLink(func(state backplane.Link) { states <- state })
	return states
}

// await reads states until one is as wanted.
func await(tb testing.TB, states <-chan backplane.Link, limit time.Duration, what string, is func(backplane.Link) bool) backplane.Link {
	tb.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		select {
		case state := <-states:
			if is(state) {
				return state
			}
		case <-end.C:
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func isUp(l backplane.Link) bool   { return l.Up }
func isDown(l backplane.Link) bool { return !l.Up }

// names are n channel names with a common beginning.
func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%05d", prefix, i)
	}
	return list
}

func TestHealsAfterRestart(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redistest.Option
		down time.Duration // beyond the time at which Redis is declared away
	}{
		{"over a socket after several refused attempts", nil, time.Second},
		{"over a port after several refused attempts", []redistest.Option{redistest.TCP()}, time.Second},
		{"after a moment", []redistest.Option{redistest.TCP()}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, test.opts...)
			r, other := start(t, backplane.Options{URL: server.URL()}), start(t, backplane.Options{URL: server.URL()})
			in := newInbox(t)
			kept, left := names("kept", 1500), names("left", 600)
			subscribe(t, r, in.deliver, kept...)
			subscribe(t, r, in.deliver, left...)
			subscribe(t, other, ignore, "other")
			states, others := watchLink(r), watchLink(other)
			await(t, states, patience, "up", isUp)
			await(t, others, patience, "up", isUp)

			server.Stop()
			joined := names("joined", 600)
			var group sync.WaitGroup
			if test.down > 0 {
				await(t, states, healTime, "down", isDown)
				for _, channel := range joined {
					group.Go(func() {
						if err := r.Subscribe(t.Context(), in.deliver, channel); !errors.Is(err, backplane.ErrUnavailable) {
							t.Errorf("Subscribe while away: %v, want ErrUnavailable", err)
						}
					})
				}
				group.Wait()
				<-time.After(test.down) // so that dialing has backed off
			} else {
				group.Go(func() {
					if err := r.Subscribe(t.Context(), in.deliver, joined...); err != nil {
						t.Errorf("Subscribe while an interruption is bridged: %v", err)
					}
				})
			}
			if err := r.Unsubscribe(t.Context(), left...); err != nil {
				t.Error(err)
			}
			server.Restart()
			back := time.Now()
			await(t, states, healTime, "up again", func(l backplane.Link) bool { return l.Up && l.Generation > 1 })
			await(t, others, healTime, "other up again", func(l backplane.Link) bool { return l.Up && l.Generation > 1 })
			publish(t, other, "kept00000", "hello")
			in.wait(1)
			if healed := time.Since(back); healed > healTime {
				t.Errorf("healed after %v, want %v", healed, healTime)
			}
			group.Wait()
			want := append(slices.Concat(joined, kept), "other")
			slices.Sort(want)
			eventually(t, "Redis has exactly the channels wanted", func() bool { return slices.Equal(server.Channels(), want) })
		})
	}
}

func TestChurnLeavesExactlyWhatIsWanted(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL(), ChannelPrefix: "p:", SubscribeBatch: 7})
	const workers, channels, steps = 8, 60, 400
	wanted := make([][]int, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			count := make([]int, channels)
			for range steps {
				i := random.IntN(channels)
				channel := strconv.Itoa(i)
				if count[i] > 0 && random.IntN(3) > 0 {
					count[i]--
					if err := r.Unsubscribe(t.Context(), channel); err != nil {
						t.Error(err)
					}
				} else {
					count[i]++
					if err := r.Subscribe(t.Context(), ignore, channel); err != nil {
						t.Error(err)
					}
				}
			}
			wanted[w] = count
		})
	}
	group.Wait()
	var want []string
	for i := range channels {
		if slices.ContainsFunc(wanted, func(count []int) bool { return count[i] > 0 }) {
			want = append(want, "p:"+strconv.Itoa(i))
		}
	}
	slices.Sort(want)
	eventually(t, "Redis has exactly the channels wanted", func() bool { return slices.Equal(server.Channels(), want) })
	if s := r.redis.Stats(); s.Channels != len(want) || s.Subscribed != len(want) {
		t.Errorf("stats say %d channels, %d subscribed, want %d", s.Channels, s.Subscribed, len(want))
	}
}

func TestSurvivesKilledConnections(t *testing.T) {
	server := redistest.Start(t)
	a := start(t, backplane.Options{URL: server.URL()})
	b := start(t, backplane.Options{URL: server.URL(), PublishQueueBytes: 16 << 10})
	in := newInbox(t)
	subscribe(t, a, in.deliver, "room")
	subscribe(t, a, ignore, names("n", 700)...)
	subscribe(t, b, ignore, "other")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := b.Publish(t.Context(), "room", fmt.Append(nil, n)); err != nil && !errors.Is(err, backplane.ErrUnavailable) {
				t.Error(err)
			}
			if n%100 == 0 {
				if err := a.Subscribe(t.Context(), ignore, fmt.Sprint("late", n%1000)); err != nil && !errors.Is(err, backplane.ErrUnavailable) {
					t.Error(err)
				}
			}
		}
	})
	pause := time.NewTicker(40 * time.Millisecond)
	defer pause.Stop()
	for range 25 {
		<-pause.C
		server.Do("CLIENT", "KILL", "TYPE", []string{"normal", "pubsub"}[rand.IntN(2)], "SKIPME", "yes")
	}
	close(stop)
	group.Wait()
	eventually(t, "both linked", func() bool {
		n, err := b.Receivers(t.Context(), "room")
		return n == 1 && err == nil
	})
	publish(t, b, "room", "end")
	eventually(t, "the last message", func() bool { return in.last() == "end" })
	last := -1
	items := in.payloads(1)
	for _, text := range items[:len(items)-1] {
		n, err := strconv.Atoi(text)
		if err != nil || n <= last {
			t.Fatalf("%q after %d: delivered twice or out of order", text, last)
		}
		last = n
	}
	s := b.redis.Stats()
	t.Logf("delivered %d of %d, publisher: %+v, receiver links: %d", len(items), last+2, s, a.redis.Stats().Links)
	if s.Links < 2 && a.redis.Stats().Links < 2 {
		t.Error("nobody had to reconnect")
	}
}

func TestNoticesAFrozenRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.TCP())
	var unsent []string
	var mu sync.Mutex
	r := start(t, backplane.Options{URL: server.URL(), Unsent: func(_ string, payload []byte) {
		mu.Lock()
		defer mu.Unlock()
		unsent = append(unsent, string(payload))
	}})
	in := newInbox(t)
	subscribe(t, r, in.deliver, "room")
	states := watchLink(r)
	await(t, states, patience, "up", isUp)

	server.Pause()
	began := time.Now()
	publish(t, r, "room", "written, fate unknown")
	confirmed := make(chan error, 1)
	go func() {
		_, err := r.PublishConfirmed(t.Context(), "room", []byte("confirmed"))
		confirmed <- err
	}()
	eventually(t, "the second is queued", func() bool { return r.redis.Stats().QueueMessages == 2 })
	publish(t, r, "room", "queued 1")
	publish(t, r, "room", "queued 2")
	state := await(t, states, patience, "down", isDown)
	if noticed := time.Since(began); noticed > healTime {
		t.Errorf("declared away after %v, want at most %v", noticed, healTime)
	}
	if !errors.Is(state.Err, backplane.ErrUnavailable) {
		t.Errorf("Link.Err is %v, want ErrUnavailable", state.Err)
	}
	if since := state.Since.Sub(began); since.Abs() > time.Second {
		t.Errorf("Link.Since is %v after the freeze", since)
	}
	if err := <-confirmed; !errors.Is(err, backplane.ErrUnavailable) {
		t.Errorf("PublishConfirmed: %v, want ErrUnavailable", err)
	}
	// How many were in the batch that was written is up to the scheduler.
	mu.Lock()
	rest := []string{"queued 1", "queued 2"}
	if rest = rest[max(0, 2-len(unsent)):]; !slices.Equal(unsent, rest) {
		t.Errorf("handed back %q, want %q", unsent, rest)
	}
	mu.Unlock()
	began = time.Now()
	if err := r.Publish(t.Context(), "room", nil); !errors.Is(err, backplane.ErrUnavailable) {
		t.Errorf("Publish while away: %v, want ErrUnavailable", err)
	}
	if _, err := r.Receivers(t.Context(), "room"); !errors.Is(err, backplane.ErrUnavailable) {
		t.Errorf("Receivers while away: %v, want ErrUnavailable", err)
	}
	if waited := time.Since(began); waited > time.Second {
		t.Errorf("calls while away took %v", waited)
	}

	server.Resume()
	began = time.Now()
	up := await(t, states, healTime, "up", isUp)
	if up.Lost == 0 || up.Generation != state.Generation+1 || up.Err != nil {
		t.Errorf("state %+v, want a message lost, the next generation, no error", up)
	}
	publish(t, r, "room", "again")
	items := in.payloads(1)
	if healed := time.Since(began); healed > healTime {
		t.Errorf("healed after %v, want at most %v", healed, healTime)
	}
	if got := items[len(items)-1]; got != "again" {
		t.Errorf("got %q", items)
	}
	if s := r.redis.Stats(); s.Lost != up.Lost || s.Lost+s.Unsent != 4 {
		t.Errorf("%d lost, %d unsent, want 4 together", s.Lost, s.Unsent)
	}
	if !slices.IsSorted(slices.Compact(items)) && len(items) != len(slices.Compact(items)) {
		t.Errorf("delivered twice: %q", items)
	}
}

func TestBridgesAShortInterruption(t *testing.T) {
	// A busy machine may take longer than a second to start a Redis.
	for range 5 {
		if bridged(t) {
			return
		}
	}
	t.Error("no interruption was short enough")
}

// bridged interrupts a link and reports whether that was short.
func bridged(t *testing.T) bool {
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL()})
	in := newInbox(t)
	subscribe(t, r, in.deliver, "room")
	states := watchLink(r)
	await(t, states, patience, "up", isUp)
	server.Stop()
	eventually(t, "the loss is noticed", func() bool { return r.redis.LocalAddr() == nil })
	var want []string
	for i := range 100 {
		if err := r.Publish(t.Context(), "room", fmt.Append(nil, i)); err != nil {
			return false
		}
		want = append(want, fmt.Sprint(i))
	}
	linked := r.Linked()
	server.Restart()
	state := await(t, states, healTime, "a new state", func(backplane.Link) bool { return true })
	if !state.Up {
		return false
	}
	if !linked {
		t.Error("a short interruption took the link down")
	}
	if state.Generation != 2 {
		t.Errorf("state %+v, want generation 2", state)
	}
	if got := in.payloads(len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q, want all in order", got)
	}
	return true
}

func TestWritesWhatIsQueuedAtTheEnd(t *testing.T) {
	server := redistest.Start(t)
	a, b := start(t, backplane.Options{URL: server.URL()}), start(t, backplane.Options{URL: server.URL()})
	in := newInbox(t)
	subscribe(t, a, in.deliver, "room")
	subscribe(t, b, ignore, "other")
	const messages = 5000
	for i := range messages {
		publish(t, b, "room", fmt.Sprint(i))
	}
	b.stop()
	if got := in.payloads(messages); got[messages-1] != fmt.Sprint(messages-1) {
		t.Errorf("the last message is %q", got[messages-1])
	}
	if s := b.redis.Stats(); s.Unsent != 0 || s.Published != messages {
		t.Errorf("%d unsent, %d published, want 0 and %d", s.Unsent, s.Published, messages)
	}
}

func TestWaitsForRedisAtTheStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.TCP())
	server.Stop()
	r := start(t, backplane.Options{URL: server.URL()})
	states := watchLink(r)
	key, err := r.SharedKey(t.Context(), "token-key")
	if err != nil {
		t.Fatal(err)
	}
	local, _ := key.Keys()
	if err := r.Subscribe(t.Context(), ignore, "room"); !errors.Is(err, backplane.ErrUnavailable) {
		t.Errorf("Subscribe: %v, want ErrUnavailable", err)
	}
	if state := <-states; state.Up || !errors.Is(state.Err, backplane.ErrUnavailable) {
		t.Errorf("state %+v, want down, ErrUnavailable", state)
	}
	server.Restart()
	await(t, states, healTime, "up", isUp)
	if n := server.NumSub("room"); n != 1 {
		t.Errorf("%d subscribers, want 1", n)
	}
	eventually(t, "the local key is in Redis", func() bool {
		stored, err := server.TryDo("GET", "sb:token-key")
		return err == nil && stored == string(local)
	})
}
