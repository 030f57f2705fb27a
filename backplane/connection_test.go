package backplane_test

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestConnectionsDoNotGrow(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL(), ClientName: "budget"})
	count := func() map[string]int {
		counts := map[string]int{}
		for line := range strings.Lines(server.Do("CLIENT", "LIST").(string)) {
			for field := range strings.FieldsSeq(line) {
				if name, ok := strings.CutPrefix(field, "name="); ok && name != redistest.ClientName {
					counts[name]++
				}
			}
		}
		return counts
	}
	const channels = 20_000
	list := names("channel", channels)
	var group sync.WaitGroup
	for part := range slices.Chunk(list, channels/40) {
		group.Go(func() {
			if err := r.Subscribe(t.Context(), ignore, part...); err != nil {
				t.Error(err)
			}
			for range 20 {
				if _, err := r.Receivers(t.Context(), part[0]); err != nil {
					t.Error(err)
				}
				if _, err := r.PublishConfirmed(t.Context(), part[0], nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := len(server.Channels()); n != channels {
		t.Errorf("%d channels, want %d", n, channels)
	}
	got := count()
	if got["budget:receive"] != 1 || got["budget:publish"] != 1 || got["budget:command"] > 4 || len(got) != 3 {
		t.Errorf("connections %v, want 1 receive, 1 publish, at most 4 command", got)
	}
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "all channels again", func() bool {
		s := r.redis.Stats()
		return s.Links == 2 && s.Subscribed == channels
	})
	eventually(t, "the old connections are gone", func() bool {
		got := count()
		return got["budget:receive"] == 1 && got["budget:publish"] == 1
	})
	if err := r.Unsubscribe(t.Context(), list...); err != nil {
		t.Error(err)
	}
	eventually(t, "no channels in Redis", func() bool { return len(server.Channels()) == 0 })
	eventually(t, "no channels remembered", func() bool { return r.redis.Stats().Channels == 0 })
}

func TestPrefixesKeepApart(t *testing.T) {
	server := redistest.Start(t)
	short := start(t, backplane.Options{URL: server.URL(), ChannelPrefix: "AJE"})
	long := start(t, backplane.Options{URL: server.URL(), ChannelPrefix: "AJEx"})
	none := start(t, backplane.Options{URL: server.URL()})
	boxes := map[*running]*inbox{short: newInbox(t), long: newInbox(t), none: newInbox(t)}
	for r, in := range boxes {
		subscribe(t, r, in.deliver, "room", "xroom")
	}
	want := []string{"AJEroom", "AJExroom", "AJExroom", "AJExxroom", "room", "xroom"}
	slices.Sort(want)
	if got := server.Channels(); !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("channels %q, want %q", got, slices.Compact(want))
	}
	publish(t, long, "room", "from long") // the same wire name as xroom of short
	publish(t, short, "room", "from short")
	publish(t, none, "room", "from none")
	publish(t, long, "xroom", "from long again")
	for r, want := range map[*running][]delivery{
		short: {{"xroom", "from long"}, {"room", "from short"}},
		long:  {{"room", "from long"}, {"xroom", "from long again"}},
		none:  {{"room", "from none"}},
	} {
		got := boxes[r].wait(len(want))
		slices.SortFunc(got, func(a, b delivery) int { return strings.Compare(a.payload, b.payload) })
		slices.SortFunc(want, func(a, b delivery) int { return strings.Compare(a.payload, b.payload) })
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestOverTLS(t *testing.T) {
	server := redistest.Start(t, redistest.TLS(), redistest.Password("pw"))
	r := start(t, backplane.Options{URL: server.URL(), TLSConfig: server.TLSConfig()})
	in := newInbox(t)
	subscribe(t, r, in.deliver, "room")
	publish(t, r, "room", "one")
	in.wait(1)
	host, _, err := net.SplitHostPort(r.redis.LocalAddr().String())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("local address %v, want one of the loopback interface", r.redis.LocalAddr())
	}
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "a new link", func() bool { return r.redis.Stats().Links == 2 })
	publish(t, r, "room", "two")
	in.wait(2)
}

// Redis closes idle connections when it is told to (timeout); the next message
// must not be lost for that.
func TestIdlePublisherMayBeClosed(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redistest.Option
	}{
		{"on a socket", nil},
		{"on a port", []redistest.Option{redistest.TCP()}},
		{"over TLS", []redistest.Option{redistest.TLS()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Start(t, test.opts...)
			r := start(t, backplane.Options{URL: server.URL(), TLSConfig: server.TLSConfig()})
			in := newInbox(t)
			subscribe(t, r, in.deliver, "room")
			for i := range 5 {
				publish(t, r, "room", fmt.Sprint(i))
				in.wait(i + 1)
				server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				eventually(t, "the connection is gone", func() bool {
					return !strings.Contains(server.Do("CLIENT", "LIST").(string), ":publish")
				})
			}
			if s := r.redis.Stats(); s.Lost != 0 || s.Links != 1 {
				t.Errorf("%d lost, %d links, want 0 and 1", s.Lost, s.Links)
			}
		})
	}
}

func TestRouteLogs(t *testing.T) {
	var text strings.Builder
	backplane.RouteLogs(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer backplane.RouteLogs(nil)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: "/nonexistent", DialerRetries: 1, MaxRetries: -1, PoolSize: 10})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("something answers at a socket that is not there")
	}
	if got := text.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "failed to dial") {
		t.Errorf("logged %q", got)
	}
}
