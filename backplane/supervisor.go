package backplane

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Waits between attempts to connect, before jitter. The first attempt after a
// loss is made at once.
const (
	firstRetry = 25 * time.Millisecond
	lastRetry  = 700 * time.Millisecond
	retryScale = 1.8
	retryBlur  = 0.4
	// settledTime is how long a link has to live for the next loss to be
	// retried at once.
	settledTime = time.Second
)

// supervisor replaces lost links and decides when Redis is away. All its
// methods run on one goroutine, that of Run.
type supervisor struct {
	r       *Redis
	backoff *backoff.ExponentialBackOff
	bridge  *time.Timer // runs while an interruption is bridged
	up      bool        // a link is up
	away    bool        // Redis is declared away
	lost    time.Time   // last sign of life of the last link
	reason  error       // why the last attempt or link ended
	logged  string      // the last reason logged
}

func newSupervisor(r *Redis) *supervisor {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstRetry, lastRetry
	b.Multiplier, b.RandomizationFactor = retryScale, retryBlur
	b.Reset()
	return &supervisor{r: r, backoff: b, lost: time.Now()}
}

// run has a link, or tries to, until ctx ends. The links live in work.
func (s *supervisor) run(ctx, work context.Context) {
	s.bridge = time.NewTimer(bridgeTime)
	defer s.bridge.Stop()
	for number := uint64(1); ctx.Err() == nil; number++ {
		l := s.r.newLink(work, number)
		go l.run() // ends before watch returns
		s.watch(ctx, l)
		if ctx.Err() != nil {
			return
		}
		s.pause(ctx, s.backoff.NextBackOff())
	}
}

// watch follows a link to its end, or ends it with ctx.
func (s *supervisor) watch(ctx context.Context, l *link) {
	began := time.Now()
	established := l.established
	for {
		select {
		case <-established:
			established = nil
			began = time.Now()
			s.linkUp(l)
		case <-s.bridge.C:
			if rest := relinkTime - time.Since(s.lost); l.connected.Load() && rest > 0 {
				s.bridge.Reset(rest)
			} else {
				s.declareAway()
			}
		case <-s.r.news:
			s.r.tell(false)
		case <-l.done:
			s.linkEnded(l, began)
			return
		case <-ctx.Done():
			s.finish(l)
			return
		}
	}
}

// pause waits before the next attempt.
func (s *supervisor) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-s.bridge.C:
			s.declareAway()
		case <-s.r.news:
			s.r.tell(false)
		}
	}
}

// linkUp opens the gates: every channel is confirmed.
func (s *supervisor) linkUp(l *link) {
	r := s.r
	s.bridge.Stop()
	s.up, s.away, s.logged = true, false, ""
	r.stats.links.Add(1)
	r.current.Store(l)
	r.setBridging(true)
	r.queue.set(gateOpen, true)
	r.registry.set(gateOpen, nil)
	r.setLink(func(state *Link) {
		if !state.Up {
			state.Up, state.Since = true, time.Now()
		}
		state.Err = nil
		state.Generation++
	})
	channels, _ := r.registry.size()
	r.log.Info("redis link up", "addr", r.server.Addr, "channels", channels, "attempt", l.number)
	r.tell(true)
	close(l.publishing)
	r.keys.wake()
}

// linkEnded notes a loss, or an attempt that failed.
func (s *supervisor) linkEnded(l *link, began time.Time) {
	reason := classify(context.Cause(l.ctx))
	s.r.current.Store(nil)
	s.reason = reason
	if s.up {
		s.up = false
		s.lost = l.lastSign()
		s.logged = ""
		s.bridge.Reset(max(0, bridgeTime-time.Since(s.lost)))
		if time.Since(began) >= settledTime {
			s.backoff.Reset()
		}
	}
	if text := reason.Error(); text != s.logged {
		s.logged = text
		s.r.log.Warn("redis link down", "addr", s.r.server.Addr, "err", text)
		if s.away {
			s.r.setLink(func(state *Link) { state.Err = reason })
			s.r.tell(true)
		}
	}
}

// declareAway ends the bridging: what waits for Redis is told that it is away.
func (s *supervisor) declareAway() {
	if s.up || s.away {
		return
	}
	s.away = true
	r := s.r
	r.setBridging(false)
	rest := r.queue.set(gateShut, false)
	r.unsent(rest, ErrUnavailable)
	r.registry.set(gateShut, ErrUnavailable)
	r.setLink(func(state *Link) {
		if state.Up {
			state.Up, state.Since = false, s.lost
		}
		if state.Err = s.reason; state.Err == nil {
			state.Err = ErrUnavailable // the first attempt is still under way
		}
	})
	r.log.Warn("redis declared away", "addr", r.server.Addr, "since", s.lost)
	r.tell(true)
}

// finish writes what is queued, for a limited time, and ends the link.
func (s *supervisor) finish(l *link) {
	s.r.queue.set(gateClosed, true)
	if s.up {
		limit := time.NewTimer(drainTime)
		defer limit.Stop()
		select {
		case <-s.r.drained:
		case <-limit.C:
		case <-l.done:
		}
	}
	l.end(errClosing)
	<-l.done
	s.r.current.Store(nil)
}
