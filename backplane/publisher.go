package backplane

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// unwrittenLimit is how often in a row a batch may find its connection dead
// before anything was written, until the link is given up.
const unwrittenLimit = 3

// publisher writes the publish queue to Redis over one connection of its link,
// batch by batch, in order.
type publisher struct {
	link     *link
	client   *redis.Client
	pipeline redis.Pipeliner
	conn     *atomic.Pointer[netConn]

	batch     []message
	slots     []*slot
	commands  []redis.Cmder
	sent      uint64 // batches
	unwritten int    // batches in a row of which nothing was written
}

// slot is a reusable PUBLISH command: making one per message would cost four
// allocations each.
type slot struct {
	channel, payload argument
	args             [3]any
	cmd              *redis.IntCmd
}

// argument is written to Redis as it is, without being copied or boxed.
type argument []byte

// MarshalBinary returns the bytes themselves.
func (a *argument) MarshalBinary() ([]byte, error) { return *a, nil }

func newPublisher(l *link) *publisher { return &publisher{link: l} }

// connect opens a connection and waits until Redis answers on it.
func (p *publisher) connect() error {
	p.close()
	opt := p.link.r.clientOptions("publish")
	opt.ReadTimeout = silentTicks * watchTick
	opt.WriteBufferSize = p.link.r.opt.PublishBatchBytes
	opt.Dialer, p.conn = p.link.singleDial()
	p.client = redis.NewClient(opt)
	p.pipeline = p.client.Pipeline()
	return p.link.bounded(func(ctx context.Context) error { return p.client.Ping(ctx).Err() })
}

func (p *publisher) close() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// publish sends what is queued until the link ends.
func (l *link) publish(p *publisher) {
	select {
	case <-l.publishing:
	case <-l.ctx.Done():
		return
	}
	idle := time.NewTicker(idlePing)
	defer idle.Stop()
	var sent uint64
	for l.ctx.Err() == nil {
		if p.batch = l.r.queue.peek(p.batch[:0], l.r.opt.PublishBatch, l.r.opt.PublishBatchBytes); len(p.batch) > 0 {
			if err := p.send(); err != nil {
				l.end(err)
			}
			continue
		}
		select {
		case <-l.ctx.Done():
		case <-l.r.queue.ready:
			l.r.noteDrained()
		case <-idle.C:
			if sent == p.sent {
				if err := p.ping(); err != nil {
					l.end(err)
				}
			}
			sent = p.sent
		}
	}
}

// ping uses the idle connection; a dead one is replaced.
func (p *publisher) ping() error {
	if err := p.link.bounded(func(ctx context.Context) error { return p.client.Ping(ctx).Err() }); err != nil {
		return p.connect()
	}
	return nil
}

// send writes the batch and waits for the replies. An error means that there
// is no connection any more and could be none made.
func (p *publisher) send() error {
	p.fill()
	defer p.release()
	conn := p.conn.Load()
	before := conn.written.Load()
	p.pipeline.BatchProcess(p.link.ctx, p.commands[:len(p.batch)]...)
	_, err := p.pipeline.Exec(p.link.ctx)
	p.sent++
	if err == nil {
		p.unwritten = 0
		p.settle(nil)
		return nil
	}
	if _, ok := err.(redis.Error); !ok && conn.written.Load() == before {
		// Nothing reached the network: the batch keeps its place.
		if p.unwritten++; p.unwritten == unwrittenLimit {
			return err
		}
		return p.connect()
	}
	p.unwritten = 0
	if p.settle(err) {
		return p.connect()
	}
	return nil
}

// fill makes the commands of the batch.
func (p *publisher) fill() {
	prefix := p.link.r.opt.ChannelPrefix
	for i, m := range p.batch {
		if i == len(p.slots) {
			s := &slot{}
			s.args = [3]any{"publish", &s.channel, &s.payload}
			s.cmd = redis.NewIntCmd(context.Background(), s.args[:]...)
			p.slots = append(p.slots, s)
			p.commands = append(p.commands, s.cmd)
		}
		s := p.slots[i]
		s.channel = append(append(s.channel[:0], prefix...), m.channel...)
		s.payload = m.payload
		s.cmd.SetErr(nil)
	}
}

// release lets the payloads of the batch go.
func (p *publisher) release() {
	for i := range p.batch {
		p.slots[i].payload = nil
		p.batch[i] = message{}
	}
}

// settle takes the batch off the queue and tells everybody who waits what
// became of his message. It reports whether the connection is broken.
func (p *publisher) settle(err error) (broken bool) {
	stats := &p.link.r.stats
	if err == nil {
		stats.published.Add(uint64(len(p.batch)))
	} else {
		broken = p.settleErrors()
	}
	stats.batches.Add(1)
	p.link.r.queue.drop(len(p.batch))
	for i := range p.batch {
		if p.batch[i].confirm == nil {
			continue
		}
		receivers, err := p.slots[i].cmd.Result()
		if _, ok := err.(redis.Error); err != nil && !ok {
			err = ErrLost
		} else if err != nil {
			err = classify(err)
		}
		p.batch[i].settle(int(receivers), err)
	}
	return broken
}

// settleErrors counts and logs a batch that met an error.
func (p *publisher) settleErrors() (broken bool) {
	var published, refused, lost uint64
	var refusal, loss error
	for i := range p.batch {
		err := p.slots[i].cmd.Err()
		if err == nil {
			published++
		} else if _, ok := err.(redis.Error); ok {
			refused++
			refusal = err
		} else {
			lost++
			loss = err
		}
	}
	r := p.link.r
	r.stats.published.Add(published)
	r.stats.refused.Add(refused)
	if refused > 0 {
		r.limited.warn(r.log, "redis refused messages", refused, refusal)
	}
	if lost > 0 {
		r.stats.lost.Add(lost)
		r.limited.warn(r.log, "messages lost: link broke before redis answered", lost, loss)
		r.noteLost()
	}
	return lost > 0
}

// Publish gives the message the next place in the publish queue of this
// process and returns: messages reach Redis in the order of their places. It
// says nothing about delivery; that is at most once.
//
// The payload must not be changed afterwards. A full queue makes Publish wait,
// for ctx and at most 5 s; then, and while Redis is declared away, the error
// is ErrUnavailable and the message has not been sent.
func (r *Redis) Publish(ctx context.Context, channel string, payload []byte) error {
	return r.queue.put(ctx, message{channel: channel, payload: payload})
}

// PublishConfirmed publishes like Publish, in the same order, and waits for
// Redis's reply: the number of connections that got the message, which is that
// of instances subscribed to the channel.
//
// It waits for ctx and at most 5 s. If ctx ends first the message may still be
// sent. ErrLost means that its fate is unknown, any other ErrUnavailable that
// it was not sent.
func (r *Redis) PublishConfirmed(ctx context.Context, channel string, payload []byte) (receivers int, err error) {
	c := &confirmation{done: make(chan struct{})}
	if err := r.queue.put(ctx, message{channel: channel, payload: payload, confirm: c}); err != nil {
		return 0, err
	}
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		return 0, waitError(ctx, "publish")
	case <-limit.C:
		return 0, fmt.Errorf("backplane: publish: no reply within %v: %w", waitLimit, ErrLost)
	}
	if c.err != nil {
		return 0, fmt.Errorf("backplane: publish: %w", c.err)
	}
	return c.receivers, nil
}
