package backplane

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Times of a link.
const (
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 1500 * time.Millisecond
	// replyTimeout bounds every wait for Redis but that for messages.
	replyTimeout = 2 * time.Second
	// watchTick is how often the receiver is looked after. Silence is counted
	// in ticks that happened, so that a process that was stopped does not take
	// its own pause for a dead link.
	watchTick = 250 * time.Millisecond
	// pingTicks of silence make us send a PING, silentTicks end the link:
	// 2.5 s after the last sign of life, 2 s after the PING.
	pingTicks   = 2
	silentTicks = 10
	// idlePing is how often an idle publishing connection is used, so that
	// neither a middlebox nor Redis's own idle timeout takes it away.
	idlePing = 15 * time.Second
)

// poolSize exceeds by far the connections of any of our clients. A pool that
// has failed to dial as often as it is large starts a goroutine that outlives
// it and repeats the error for a second; a link ends at its first failed dial.
const poolSize = 64

// commandSlots bounds the connections for commands that want an answer.
const commandSlots = 4

// link is one set of connections to Redis, from dialing until the first of
// them is lost: one that receives, one that publishes, a few for commands.
// A link is never repaired, it is replaced; everything published by others in
// between is lost, and the next link says so.
type link struct {
	r      *Redis
	number uint64

	// ctx is the lifetime of the link; its cause is why it ended.
	ctx    context.Context
	cancel context.CancelCauseFunc

	established chan struct{} // closed by the registry when all channels are confirmed
	publishing  chan struct{} // closed when the publisher may start
	done        chan struct{} // closed when all goroutines have ended

	receiver  *redis.Client
	pubsub    *redis.PubSub
	slots     chan struct{} // one element per command under way
	connected atomic.Bool   // Redis has answered; channels are being subscribed
	turns     atomic.Uint64 // odd while a message is being delivered; counts signs of life

	mu    sync.Mutex
	ended bool
	lost  time.Time // last sign of life
	conns map[*netConn]struct{}
	idle  []*redis.Client // of one connection each, for commands
	local net.Addr
}

func (r *Redis) newLink(ctx context.Context, number uint64) *link {
	l := &link{
		r:           r,
		number:      number,
		established: make(chan struct{}),
		publishing:  make(chan struct{}),
		done:        make(chan struct{}),
		slots:       make(chan struct{}, commandSlots),
		conns:       make(map[*netConn]struct{}),
	}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l
}

// run connects and returns when the link has ended and nothing of it is left.
func (l *link) run() {
	defer close(l.done)
	defer l.end(errClosing)
	publisher, err := l.open()
	if err != nil {
		l.end(err)
		l.close(publisher)
		return
	}
	l.connected.Store(true)
	l.r.registry.attach(l)
	var parts sync.WaitGroup
	parts.Go(l.receive)
	parts.Go(l.maintain)
	parts.Go(func() { l.publish(publisher) })
	<-l.ctx.Done()
	parts.Wait()
	l.r.registry.detach()
	l.close(publisher)
}

// open makes the connections, so that wrong addresses and passwords show here.
func (l *link) open() (*publisher, error) {
	opt := l.r.clientOptions("receive")
	dial, place := l.singleDial()
	opt.Dialer = dial
	l.receiver = redis.NewClient(opt)
	l.pubsub = l.receiver.Subscribe(l.ctx)
	if err := l.bounded(func(ctx context.Context) error { return l.pubsub.Ping(ctx) }); err != nil {
		return nil, explain(err, place.Load())
	}
	if own := place.Load(); own != nil {
		l.mu.Lock()
		l.local = own.LocalAddr()
		l.mu.Unlock()
	}
	p := newPublisher(l)
	return p, p.connect()
}

// bounded runs a step of the connection with a time limit.
func (l *link) bounded(step func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(l.ctx, dialTimeout+replyTimeout)
	defer cancel()
	return step(ctx)
}

// close releases what open made.
func (l *link) close(p *publisher) {
	if p != nil {
		p.close()
	}
	if l.pubsub != nil {
		l.pubsub.Close()
		l.receiver.Close()
	}
	l.mu.Lock()
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// end ends the link for the given reason, if it has not ended yet, and frees
// everybody who is waiting for its connections.
func (l *link) end(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.lost = time.Now()
	if reason == errSilent {
		l.lost = l.lost.Add(-silentTicks * watchTick)
	}
	l.cancel(reason)
	for c := range l.conns {
		c.cut()
	}
}

// own adds a connection to those that are cut when the link ends.
func (l *link) own(c *netConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return context.Cause(l.ctx)
	}
	l.conns[c] = struct{}{}
	return nil
}

func (l *link) forget(c *netConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// lastSign is when the link last showed life before it ended.
func (l *link) lastSign() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *link) localAddr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.local
}

// receive hands messages and confirmations on until the connection is lost.
func (l *link) receive() {
	for {
		reply, err := l.next()
		l.turns.Add(1)
		if err == nil {
			err = l.take(reply)
		} else if refusal, ok := err.(redis.Error); ok {
			err = l.refused(refusal)
		}
		l.turns.Add(1)
		if err != nil {
			l.end(err)
			return
		}
	}
}

// next waits for the next reply. go-redis panics when one has a shape it never
// expected.
func (l *link) next() (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errReply, p)
		}
	}()
	return l.pubsub.Receive(l.ctx)
}

// take handles one reply on the receiving connection.
func (l *link) take(reply any) error {
	switch reply := reply.(type) {
	case *redis.Message:
		deliver, channel := l.r.registry.receiver(reply.Channel)
		if deliver == nil {
			l.r.stats.discarded.Add(1)
			return nil
		}
		l.r.stats.received.Add(1)
		deliver(channel, bytesOf(reply.Payload))
	case *redis.Subscription:
		if !l.r.registry.confirm(reply.Kind, reply.Channel) {
			return fmt.Errorf("%w: %s", errReply, reply)
		}
	}
	return nil
}

// refused handles an error reply: it belongs to the first SUBSCRIBE under way.
func (l *link) refused(reply redis.Error) error {
	reason := classify(reply)
	channel, ok := l.r.registry.refuse(reason)
	if !ok {
		return reason
	}
	if channel != "" {
		l.r.log.Warn("redis refused a subscription", "channel", channel, "err", reply.Error())
	}
	return nil
}

// maintain writes what the registry needs written, and watches for silence.
// It alone writes to the receiving connection.
func (l *link) maintain() {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	var heard uint64
	silent := 0
	for {
		for _, c := range l.r.registry.next(l.r.opt.SubscribeBatch) {
			if err := l.write(c); err != nil {
				l.end(err)
				return
			}
		}
		select {
		case <-l.ctx.Done():
			return
		case <-l.r.registry.ready:
			continue
		case <-tick.C:
		}
		turns := l.turns.Load()
		if turns != heard || turns%2 == 1 {
			heard, silent = turns, 0
			continue
		}
		var err error
		switch silent++; silent {
		case pingTicks:
			err = l.pubsub.Ping(l.ctx)
		case silentTicks:
			err = errSilent
		}
		if err != nil {
			l.end(err)
			return
		}
	}
}

func (l *link) write(c command) error {
	if c.kind == "subscribe" {
		return l.pubsub.Subscribe(l.ctx, c.names()...)
	}
	return l.pubsub.Unsubscribe(l.ctx, c.names()...)
}
