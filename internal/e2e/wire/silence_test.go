package wire

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
)

// silence is the client timeout of these tests, and beat how often whoever
// talks does so.
const (
	silence = 600 * time.Millisecond
	beat    = silence / 10
)

// timedOut is what a client reads that was silent for too long.
func timedOut() string {
	return closed("OperationCanceledException: Client hasn't sent a message/ping within the configured ClientTimeoutInterval.")
}

func TestPulledCable(t *testing.T) {
	tune := func(o *hub.Options) {
		o.ClientTimeoutInterval = silence
		o.KeepAliveInterval = silence / 4
		o.CloseTimeout = silence / 2
	}
	for _, tt := range []struct {
		name  string
		pings bool // the client has pinged, so that its silence means something
		cause *hub.Disconnect
	}{
		{"after a while", true, hub.ErrClientTimeout},
		{"right behind the handshake", false, hub.ErrPeerGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l ledger
			rs, fleet := startFleet(t, tune, l.watch)
			i := fleet[0]
			runtime.GC()
			goroutines, channels := runtime.NumGoroutine(), strings.Join(rs.Channels(), " ")
			cable := startProxy(t, i.Addr())
			p := joinAt(t, cable.addr(), jsonDialect{}, hubPath+"?user_id=u")
			p.do("JoinGroup", `["g"]`)
			if tt.pings {
				p.send(ping)
				p.works()
			}
			cable.pull()
			began := time.Now()
			eventually(t, "the disconnect callback has run", silence+grace, func() bool { _, n := l.counts(); return n == 1 })
			if after := time.Since(began); after < silence/2 {
				t.Errorf("given up after %v, want a chance for %v", after, silence)
			}
			i.empty(t, silence+grace)
			p.reset()
			cable.stop()
			eventually(t, "the goroutines are back", patience, func() bool { return runtime.NumGoroutine() <= goroutines })
			eventually(t, "the subscriptions are back", patience, func() bool { return strings.Join(rs.Channels(), " ") == channels })
			l.expect(t, 1, 1)
			if i.ends(tt.cause) != 1 {
				t.Errorf("ended by %v, want %v", l.causes, tt.cause)
			}
		})
	}
}

// What a client receives is no proof that it lives, and what it sends is.
func TestListeningIsNotTalking(t *testing.T) {
	t.Parallel()
	const keepAlive = silence / 6
	i := tuned(t, func(o *hub.Options) {
		o.ClientTimeoutInterval = silence
		o.KeepAliveInterval = keepAlive
	})
	together(t, map[string]func(testing.TB, dialect){
		"it closes who only listens": func(t testing.TB, d dialect) {
			listener, news := join(t, i, d, hubPath), join(t, i, d, hubPath)
			group := quoted(d.name())
			listener.do("JoinGroup", `[`+group+`]`)
			during(beat/2, func() { news.tryWrite(news.framed(call("", "SendToGroup", `[`+group+`,"m",[1]]`))) }, func() {
				began := time.Now()
				listener.send(ping) // starts the clock
				heard, got := 0, ping
				for got == ping || got == invocation("m", "[1]") {
					var err error
					if got, err = listener.record(time.Now().Add(patience)); err != nil {
						t.Error(err)
						return
					}
					heard++
				}
				if after := time.Since(began); got != timedOut() || after < silence || after > silence+grace {
					t.Errorf("got %s after %v, want %s after %v", got, after, timedOut(), silence)
				}
				if heard < 5 {
					t.Errorf("heard %d messages, too few to prove anything", heard)
				}
			})
		},
		"it keeps who only talks": func(t testing.TB, d dialect) {
			talker := join(t, i, d, hubPath)
			talker.send(ping)
			during(beat, func() { talker.tryWrite(talker.framed(call("", "Echo", `[1]`))) }, func() {
				last, pings := time.Now(), 0
				for end := time.Now().Add(3 * silence); time.Now().Before(end); last = time.Now() {
					got, err := talker.record(time.Now().Add(patience))
					if err != nil || got != ping {
						t.Errorf("got %s, %v, want a ping", got, err)
						return
					}
					if gap := time.Since(last); gap > keepAlive+grace {
						t.Errorf("no ping for %v, want one every %v", gap, keepAlive)
					}
					pings++
				}
				if most := int(3*silence/keepAlive) + 2; pings > most {
					t.Errorf("%d pings, want at most %d", pings, most)
				}
			})
			talker.works()
		},
	})
}

// during runs body while another goroutine does something every now and then.
func during(every time.Duration, something, body func()) {
	over := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				something()
			}
		}
	})
	body()
	close(over)
	busy.Wait()
}

func TestClientTimeout(t *testing.T) {
	t.Parallel()
	i := tuned(t, func(o *hub.Options) { o.ClientTimeoutInterval = silence }, func(h *hub.Hub) {
		h.Handle("Wait", hub.Action0(func(ctx context.Context, _ *hub.Caller) error {
			<-ctx.Done()
			return ctx.Err()
		}))
	})
	together(t, map[string]func(testing.TB, dialect){
		"it closes who pinged once and went silent": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			began := time.Now()
			p.send(ping)
			p.expect(timedOut())
			if after := time.Since(began); after < silence || after > silence+grace {
				t.Errorf("closed after %v, want %v", after, silence)
			}
			p.expectClose(1000)
		},
		"it keeps who pings while its call takes long": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			p.send(ping, call("1", "Wait", "[]"), call("2", "Echo", `["after it"]`))
			during(beat, func() { p.tryWrite(p.framed(ping)) }, func() { quiet(t, p, 3*silence) })
			p.send(`{"type":5,"invocationId":"1"}`)
			p.expect(failure("1", "An unexpected error occurred invoking 'Wait' on the server."), result("2", `"after it"`))
			p.works()
		},
		"it keeps who never pings and calls": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			tick := time.NewTicker(beat)
			defer tick.Stop()
			for end := time.Now().Add(3 * silence); time.Now().Before(end); <-tick.C {
				p.works()
			}
		},
		"it keeps who never says anything and answers below the hub": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			quiet(t, p, 3*silence)
			if p.pings == 0 {
				t.Error("it was never asked")
			}
			p.works()
		},
		"it counts any record, whatever is in it": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			p.send(ping)
			during(beat, func() { p.tryWrite(p.framed(`{"type":3,"invocationId":"nope","result":1}`)) }, func() { quiet(t, p, 2*silence) })
			p.works()
		},
		"it does not count a record that never becomes whole": func(t testing.TB, d dialect) {
			p := join(t, i, d, hubPath)
			p.send(ping)
			began := time.Now()
			p.write(message(opBinary, p.encode(call("1", "Echo", `["`+strings.Repeat(" ", 200)+`"]`))[:100]))
			during(beat, func() { p.tryWrite(message(opBinary, []byte(" "))) }, func() { p.expect(timedOut()) })
			if after := time.Since(began); after > silence+grace {
				t.Errorf("closed after %v, want %v", after, silence)
			}
		},
	})
}

// quiet listens for a while, answering pings below the hub, and fails the test
// if a record comes.
func quiet(t testing.TB, p *peer, d time.Duration) {
	t.Helper()
	if got, err := p.record(time.Now().Add(d)); err == nil {
		t.Errorf("got %s, want silence", got)
	}
}

// Two clients that do not read are ended within bounds, and hold nobody up: one
// is told what it never asked for, the other one asks and does not listen.
func TestClientThatNeverReads(t *testing.T) {
	const flood = 64 << 10
	for _, tt := range []struct {
		name string
		load func(t *testing.T, i *instance, deaf *peer, talker *peer)
	}{
		{"what it is told", func(t *testing.T, i *instance, deaf, talker *peer) {
			deaf.do("JoinGroup", `["g"]`)
			for i.ends(hub.ErrSlowConsumer) == 0 {
				talker.do("SendToGroup", `["g","m",[`+text(flood/4)+`]]`)
				if n := i.hub().Stats().QueuedBytes; n > 5*flood {
					t.Fatalf("%d bytes wait for one client, more than %d", n, 4*flood)
				}
			}
		}},
		{"what it asks for", func(t *testing.T, i *instance, deaf, talker *peer) {
			record := deaf.framed(call("1", "Echo", `[`+text(flood/4)+`]`))
			over := make(chan struct{})
			var asking sync.WaitGroup
			asking.Go(func() {
				defer close(over)
				for deaf.tryWrite(record) == nil {
				}
			})
			defer asking.Wait()
			for {
				talker.works()
				if n := i.hub().Stats().QueuedBytes; n > 2*flood {
					t.Errorf("%d bytes wait for one client, want its answers to wait for room", n)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l ledger
			i := tuned(t, func(o *hub.Options) {
				o.OutboundBytes = 4 * flood
				o.WriteTimeout = silence
				o.CloseTimeout = silence
			}, l.watch)
			talker := join(t, i, packDialect{}, hubPath)
			deaf := join(t, i, jsonDialect{}, hubPath)
			deaf.works()
			began := time.Now()
			before := heap()
			tt.load(t, i, deaf, talker)
			if held := heap() - before; held > 4<<20 {
				t.Errorf("%d bytes are held for a client that does not read", held)
			}
			eventually(t, "the deaf client is gone", silence+grace, func() bool { return i.hub().Stats().Connections == 1 })
			if after := time.Since(began); after > patience {
				t.Errorf("ended after %v", after)
			}
			talker.works()
			l.expect(t, 2, 1)
			if n := i.ends(hub.ErrSlowConsumer); n != 1 {
				t.Errorf("ended by %v, want the slow consumer", l.causes)
			}
		})
	}
}
