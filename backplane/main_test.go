package backplane_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestMain(m *testing.M) {
	backplane.RouteLogs(nil)
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test for something that has to happen.
const patience = 10 * time.Second

// instance is what both backplanes offer.
type instance interface {
	Run(ctx context.Context) error
	Publish(ctx context.Context, channel string, payload []byte) error
	PublishConfirmed(ctx context.Context, channel string, payload []byte) (int, error)
	Subscribe(ctx context.Context, deliver func(channel string, payload []byte), channels ...string) error
	Unsubscribe(ctx context.Context, channels ...string) error
	Receivers(ctx context.Context, channel string) (int, error)
	Linked() bool
	OnLink(f func(backplane.Link))
	SharedKey(ctx context.Context, name string) (backplane.SharedKey, error)
	Claim(ctx context.Context, name, owner string, life time.Duration) (string, error)
	HandOver(ctx context.Context, name, owner, to string) error
}

// unavailable is how packages that import no backplane recognise its errors.
type unavailable interface {
	error
	Unavailable() bool
}

// overBoth runs a contract test over both backplanes. Each call of connect
// gives one more running instance on the same Redis or broker.
func overBoth(t *testing.T, test func(t *testing.T, connect func() instance)) {
	t.Run("over Redis", func(t *testing.T) {
		server := redistest.Start(t)
		test(t, func() instance { return start(t, backplane.Options{URL: server.URL()}) })
	})
	t.Run("in memory", func(t *testing.T) {
		broker := memory.New()
		test(t, func() instance {
			return run(t, broker.Connect())
		})
	})
}

// start makes a Redis backplane and runs it until the test ends.
func start(tb testing.TB, opt backplane.Options) *running {
	tb.Helper()
	b, err := backplane.New(opt)
	if err != nil {
		tb.Fatal(err)
	}
	r := run(tb, b)
	r.redis = b
	return r
}

// running is an instance whose Run runs until stop is called, at the latest
// until the test ends.
type running struct {
	instance
	redis *backplane.Redis // nil for the other kind
	stop  func()
}

func run(tb testing.TB, b instance) *running {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			tb.Error("Run has not ended")
		}
	})
	tb.Cleanup(stop)
	return &running{instance: b, stop: stop}
}

// delivery is one message as it was delivered.
type delivery struct {
	channel string
	payload string
}

// inbox collects deliveries without ever blocking who delivers.
type inbox struct {
	tb    testing.TB
	mu    sync.Mutex
	items []delivery
	news  chan struct{}
}

func newInbox(tb testing.TB) *inbox { return &inbox{tb: tb, news: make(chan struct{}, 1)} }

func (in *inbox) deliver(channel string, payload []byte) {
	in.mu.Lock()
	in.items = append(in.items, delivery{channel, string(payload)})
	in.mu.Unlock()
	select {
	case in.news <- struct{}{}:
	default:
	}
}

// wait returns the first n deliveries, once there are that many.
func (in *inbox) wait(n int) []delivery {
	in.tb.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		in.mu.Lock()
		have := len(in.items)
		if have >= n {
			defer in.mu.Unlock()
			return slices.Clone(in.items)
		}
		in.mu.Unlock()
		select {
		case <-in.news:
		case <-limit.C:
			in.tb.Fatalf("%d deliveries, want %d", have, n)
		}
	}
}

// last is the newest payload.
func (in *inbox) last() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.items) == 0 {
		return ""
	}
	return in.items[len(in.items)-1].payload
}

func (in *inbox) payloads(n int) []string {
	in.tb.Helper()
	var payloads []string
	for _, d := range in.wait(n) {
		payloads = append(payloads, d.payload)
	}
	return payloads
}

// eventually waits until something outside this process has become true.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	within(tb, patience, what, is)
}

func within(tb testing.TB, limit time.Duration, what string, is func() bool) {
	tb.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end.C:
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func ignore(string, []byte) {}

func subscribe(tb testing.TB, b instance, deliver func(string, []byte), channels ...string) {
	tb.Helper()
	if err := b.Subscribe(tb.Context(), deliver, channels...); err != nil {
		tb.Fatal(err)
	}
}

func publish(tb testing.TB, b instance, channel, payload string) {
	tb.Helper()
	if err := b.Publish(tb.Context(), channel, []byte(payload)); err != nil {
		tb.Fatal(err)
	}
}
