package backplane

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// waitLimit bounds every wait for Redis of a caller.
	waitLimit = 5 * time.Second
	// bridgeTime is how long an interruption may last, counted from the last
	// sign of life, before Redis is declared away.
	bridgeTime = time.Second
	// relinkTime is the same once Redis answers again and only has to confirm
	// the channels.
	relinkTime = 2500 * time.Millisecond
	// drainTime bounds the writing of what is queued when Run ends.
	drainTime = time.Second
)

// Redis is a backplane on one Redis server. It serves all hubs of a process
// and is safe for concurrent use. It works while Run runs.
type Redis struct {
	// fixed
	opt    Options
	server *redis.Options
	log    *slog.Logger

	queue    *publishQueue
	registry *registry
	keys     *keyring
	handOver *redis.Script
	stats    counters
	limited  limitedLog

	started atomic.Bool
	current atomic.Pointer[link] // the link that is up
	news    chan struct{}        // capacity 1: listeners or losses to report
	drained chan struct{}        // closed when a closed queue is empty
	drain   sync.Once

	mu        sync.Mutex
	state     Link
	listeners []func(Link)
	told      int           // listeners that know a state
	bridging  bool          // a link may come any moment
	changed   chan struct{} // closed when the link or bridging changed
}

// New checks the options; it does not connect.
func New(opt Options) (*Redis, error) {
	server, err := parseURL(opt.URL)
	if err != nil {
		return nil, err
	}
	if opt, err = opt.withDefaults(); err != nil {
		return nil, err
	}
	if opt.TLSConfig != nil && server.TLSConfig != nil {
		own := opt.TLSConfig.Clone()
		if own.ServerName == "" {
			own.ServerName = server.TLSConfig.ServerName
		}
		own.MinVersion = max(own.MinVersion, tls.VersionTLS12)
		server.TLSConfig = own
	}
	return &Redis{
		opt:      opt,
		server:   server,
		log:      opt.Logger,
		queue:    newPublishQueue(opt.PublishQueueBytes),
		registry: newRegistry(opt.ChannelPrefix),
		keys:     newKeyring(opt.KeyPrefix),
		handOver: redis.NewScript(handOverSource),
		news:     make(chan struct{}, 1),
		drained:  make(chan struct{}),
		state:    Link{Since: time.Now()},
		changed:  make(chan struct{}),
	}, nil
}

// ErrRunTwice says that Run was called a second time.
var ErrRunTwice = errors.New("backplane: Run was called twice")

// Run connects, keeps the link to Redis and returns nil when ctx has ended and
// every goroutine it started too. It never gives up: what keeps it from
// connecting is in the Link that OnLink reports, and Check asks for it at
// once. At the end it writes what is still queued, for at most a second.
func (r *Redis) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return ErrRunTwice
	}
	r.setBridging(true)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { r.refreshKeys(ctx) })
	s := newSupervisor(r)
	s.run(ctx, work)
	cancel()
	parts.Wait()
	r.close()
	return nil
}

// close refuses everything from now on.
func (r *Redis) close() {
	r.unsent(r.queue.set(gateClosed, false), ErrClosed)
	r.registry.set(gateClosed, ErrClosed)
	r.setBridging(false)
	r.setLink(func(state *Link) {
		if state.Up {
			state.Up, state.Since = false, time.Now()
		}
		state.Err = ErrClosed
	})
	r.tell(true)
}

// unsent ends messages that were queued and never written.
func (r *Redis) unsent(messages []message, reason error) {
	if len(messages) == 0 {
		return
	}
	r.stats.unsent.Add(uint64(len(messages)))
	r.limited.warn(r.log, "messages not sent", uint64(len(messages)), reason)
	for i := range messages {
		m := &messages[i]
		if m.confirm == nil && r.opt.Unsent != nil {
			r.opt.Unsent(m.channel, m.payload)
		}
		m.settle(0, reason)
	}
}

// noteDrained tells Run that the closed queue is empty.
func (r *Redis) noteDrained() {
	if n, _, gate := r.queue.load(); n == 0 && gate == gateClosed {
		r.drain.Do(func() { close(r.drained) })
	}
}

// Subscribe counts one subscription of each channel and returns once Redis has
// confirmed all of them: a message published afterwards, by whomever, is
// delivered. The deliver function of the first subscriber serves the channel
// until its last subscription is gone. It gets the messages in the order Redis
// has them, on the one goroutine that receives: it must not block, least of
// all in Subscribe, whose confirmation would come on that goroutine. It may
// keep the payload but not change it.
//
// Each call needs its Unsubscribe, also one that returned an error: the count
// stays, and is established when Redis is back. It waits for ctx and at most
// 5 s; ErrUnavailable means that Redis has not confirmed, ErrAuth that it
// refuses. Only after ErrClosed is there nothing to take back.
func (r *Redis) Subscribe(ctx context.Context, deliver func(channel string, payload []byte), channels ...string) error {
	if deliver == nil {
		return errors.New("backplane: subscribe: deliver is nil")
	}
	if len(channels) == 0 {
		return nil
	}
	w, err := r.registry.subscribe(deliver, channels)
	if err != nil {
		return wrap("subscribe", err)
	}
	if w == nil {
		return nil
	}
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-w.done:
		return wrap("subscribe", w.err)
	case <-ctx.Done():
	case <-limit.C:
	}
	if settled, err := r.registry.abandon(w, channels); settled {
		return wrap("subscribe", err)
	}
	return waitError(ctx, "subscribe")
}

// Unsubscribe takes back one subscription of each channel. It does not wait
// for Redis. A message that is being delivered at this moment may still
// arrive; nothing after it does. ErrNotSubscribed means that there was nothing
// to take back for one of the channels; the others were taken back.
func (r *Redis) Unsubscribe(_ context.Context, channels ...string) error {
	return r.registry.unsubscribe(channels)
}

// LocalAddr is the address of this machine as the present link uses it, or nil
// if there is no link.
func (r *Redis) LocalAddr() net.Addr {
	if l := r.current.Load(); l != nil {
		return l.localAddr()
	}
	return nil
}
