package wire

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/redistest"
	"github.com/switchboard-hub/switchboard/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is how long a test waits for what must come.
	patience = 10 * time.Second

	// grace is how much later than its limit something may happen: the
	// keep-alive tick, and a machine with other things to do.
	grace = time.Second

	// longEnv selects the full sizes, for runs by hand.
	longEnv = "SWITCHBOARD_LONG"
)

// full is the size of a test: short normally, long with SWITCHBOARD_LONG=1.
func full(short, long int) int {
	if os.Getenv(longEnv) == "1" {
		return long
	}
	return short
}

// An instance is one whole server with a real listener.
type instance struct {
	*server.Server
	log  *journal
	stop func() // ends it at once, and waits
}

// hub is its hub.
func (i *instance) hub() *hub.Hub { return i.Hub(server.DefaultHubKey) }

// start runs an instance until the test ends, and waits until it is ready.
// prepare sees the hub before it runs.
func start(t testing.TB, cfg server.Config, prepare ...func(*hub.Hub)) *instance {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	log := &journal{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{Server: s, log: log}
	for _, p := range prepare {
		p(i.hub())
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("instance: %v", err)
		}
	})
	i.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(func() {
		i.stop()
		i.settled(t)
	})
	select {
	case <-i.hub().Ready():
	case <-time.After(patience):
		t.Fatal("instance is not ready")
	}
	return i
}

// settled checks, after the end of an instance, what must hold whatever clients
// have done to it: the counts come out even, and none of it was an error of the
// server's own.
func (i *instance) settled(t testing.TB) {
	t.Helper()
	s := i.hub().Stats()
	var ended uint64
	for reason, n := range s.Disconnects {
		if reason != hub.ErrHandshake.Reason() {
			ended += n
		}
	}
	if s.QueuedBytes != 0 || s.Connections != 0 || s.Opened != ended {
		t.Errorf("after the end: %d connections, %d bytes queued, %d opened and %d ended", s.Connections, s.QueuedBytes, s.Opened, ended)
	}
	for _, line := range i.log.lines("level=ERROR") {
		if !strings.Contains(line, "a method panicked") {
			t.Errorf("an error of the server: %s", line)
		}
	}
}

// tuned starts an instance that is alone, with other options than the default.
func tuned(t testing.TB, tune func(*hub.Options), prepare ...func(*hub.Hub)) *instance {
	t.Helper()
	return start(t, server.Config{Tune: tune}, prepare...)
}

// startFleet runs two instances on a Redis of their own.
func startFleet(t testing.TB, tune func(*hub.Options), prepare ...func(*hub.Hub)) (*redistest.Server, []*instance) {
	t.Helper()
	rs := redistest.Start(t)
	var fleet []*instance
	for _, name := range []string{"a", "b"} {
		fleet = append(fleet, start(t, server.Config{Redis: rs.URL(), Instance: name, Tune: tune}, prepare...))
	}
	return rs, fleet
}

// An arrangement is a place for a sender and one for a receiver.
type arrangement struct {
	name             string
	sender, receiver *instance
}

// arrangements are one instance that is alone, and two on a Redis with the
// receiver on the sender's and on the other one.
func arrangements(t testing.TB) []arrangement {
	t.Helper()
	alone := start(t, server.Config{})
	_, fleet := startFleet(t, nil)
	return []arrangement{
		{"alone", alone, alone},
		{"same instance of two", fleet[0], fleet[0]},
		{"other instance", fleet[0], fleet[1]},
	}
}

// eventually waits until a condition holds that only the outside can bring
// about, and fails the test if it does not in time.
func eventually(t testing.TB, what string, within time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", within, what)
		}
		<-look.C
	}
}

// empty waits until the instance has no connection left, of any kind, and
// nothing that belonged to one.
func (i *instance) empty(t testing.TB, within time.Duration) {
	t.Helper()
	eventually(t, "no connection is left", within, func() bool {
		s := i.hub().Stats()
		return i.hub().HTTPStats().Open == 0 && s.Connections == 0 && s.Groups == 0 && s.Users == 0 && s.QueuedBytes == 0
	})
}

// ends is how many connections ended for a reason.
func (i *instance) ends(d *hub.Disconnect) int { return int(i.hub().Stats().Disconnects[d.Reason()]) }

// A journal is an instance's log.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// lines returns the lines that contain text.
func (j *journal) lines(text string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for line := range strings.Lines(j.buf.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A ledger notes whose callbacks ran, how often and why.
type ledger struct {
	mu           sync.Mutex
	connected    []string
	disconnected []string
	causes       []error
}

// watch makes the hub's callbacks write into the ledger.
func (l *ledger) watch(h *hub.Hub) {
	h.OnConnected(func(_ context.Context, c *hub.Caller) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.connected = append(l.connected, c.ConnectionID())
		return nil
	})
	h.OnDisconnected(func(_ context.Context, c *hub.Caller, cause error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.disconnected = append(l.disconnected, c.ConnectionID())
		l.causes = append(l.causes, cause)
	})
}

// counts are how often the two callbacks ran.
func (l *ledger) counts() (connected, disconnected int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.connected), len(l.disconnected)
}

// expect fails the test unless the callbacks have run that often.
func (l *ledger) expect(t testing.TB, connected, disconnected int) {
	t.Helper()
	if c, d := l.counts(); c != connected || d != disconnected {
		t.Errorf("the callbacks ran %d and %d times, want %d and %d", c, d, connected, disconnected)
	}
}
