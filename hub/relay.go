package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/dialect"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// maxRemoteWork bounds the group changes that other instances have asked for
// and the client results for them that are under way here; above it they are
// dropped and counted, and the asking instance times out.
const maxRemoteWork = 4096

// A relay carries the hub's messages between instances: it knows the channels
// and envelopes, the backplane knows neither. A nil relay is a hub that is
// alone.
type relay struct {
	hub    *Hub
	bp     Backplane
	server string // this hub in this process, for acks

	waiters waiters
	work    sync.WaitGroup // remote group changes under way here
	slots   chan struct{}

	// guarded by mu; deliveries of one backplane come one after another, so
	// that nobody ever waits for it
	mu       sync.Mutex
	stopped  bool // starts no further work
	in       dialect.Invocation
	excluded []string
}

func newRelay(h *Hub, bp Backplane) *relay {
	machine, err := os.Hostname()
	if err != nil {
		machine = "switchboard"
	}
	return &relay{
		hub: h, bp: bp, server: dialect.NewServerName(machine),
		waiters: waiters{byID: map[int32]chan struct{}{}},
		slots:   make(chan struct{}, maxRemoteWork),
	}
}

// standing returns the channels every instance listens on.
func (r *relay) standing() []string {
	n := r.hub.names
	return []string{n.All(), n.GroupCommands(), n.Ack(r.server), n.Return(r.server)}
}

// listen registers the standing channels and returns true once they are live,
// or false when ctx ends first.
func (r *relay) listen(ctx context.Context) bool {
	err := r.bp.Subscribe(ctx, r.deliver, r.standing()...)
	for err != nil {
		retry := time.NewTimer(listenRetry)
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return false
		}
		// Registered they are; a second registration waits for the confirmation.
		bounded, cancel := context.WithTimeout(ctx, DefaultBackplaneTimeout)
		err = r.bp.Subscribe(bounded, r.deliver, r.standing()...)
		cancel()
		r.unsubscribe(r.standing()...)
	}
	return true
}

// listenRetry is the pause between two looks at whether the standing channels
// are live.
const listenRetry = 100 * time.Millisecond

// unavailable is implemented by backplane errors that say that the link is
// known to be down, so that a registration waits for its return.
type unavailable interface{ Unavailable() bool }

// subscribe registers for channels and waits until they are live. While the
// link is down it does not wait: the registration takes effect when the link
// is back. After an error the registration is still owed an unsubscribe.
func (r *relay) subscribe(ctx context.Context, channels ...string) error {
	if r == nil {
		return nil
	}
	err := r.bp.Subscribe(ctx, r.deliver, channels...)
	if err == nil {
		return nil
	}
	var down unavailable
	if errors.As(err, &down) && down.Unavailable() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("hub: subscribe: %w: %w", ErrUnavailable, err)
}

// subscribeOwn makes a new connection reachable from other instances. A
// backplane in trouble does not keep it out: registered it is in any case.
func (r *relay) subscribeOwn(c *conn) {
	if r == nil {
		return
	}
	var room [2]string
	if err := r.subscribe(c.ctx, c.ownChannels(room[:0])...); err != nil && c.ctx.Err() == nil {
		r.hub.opts.Logger.Warn("connection not yet reachable from other instances", slog.String("conn", c.id), slog.Any("err", err))
	}
}

func (r *relay) unsubscribe(channels ...string) {
	if r == nil {
		return
	}
	if err := r.bp.Unsubscribe(context.Background(), channels...); err != nil {
		r.hub.opts.Logger.Warn("unsubscribe", slog.Any("err", err))
	}
}

// publish puts a payload on the ordered publish queue.
func (r *relay) publish(ctx context.Context, channel string, payload []byte) error {
	if err := r.bp.Publish(ctx, channel, payload); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("hub: publish: %w", context.Cause(ctx))
		}
		return fmt.Errorf("hub: publish: %w: %w", ErrUnavailable, err)
	}
	r.hub.stats.published.Add(1)
	return nil
}

// confirmedPublisher is a backplane that can wait for a publish.
type confirmedPublisher interface {
	PublishConfirmed(ctx context.Context, channel string, payload []byte) (receivers int, err error)
}

func (r *relay) publishConfirmed(ctx context.Context, channel string, payload []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultBackplaneTimeout)
	defer cancel()
	if p, ok := r.bp.(confirmedPublisher); ok {
		n, err := p.PublishConfirmed(ctx, channel, payload)
		if err != nil {
			return 0, fmt.Errorf("hub: publish: %w: %w", ErrUnavailable, err)
		}
		r.hub.stats.published.Add(1)
		return n, nil
	}
	n, err := r.bp.Receivers(ctx, channel)
	if err != nil {
		return 0, fmt.Errorf("hub: publish: %w: %w", ErrUnavailable, err)
	}
	return n, r.publish(ctx, channel, payload)
}

// encode makes the envelope of a message in every protocol of the hub. The id is
// that of a question, whose answer comes back here; empty where none is wanted.
func (r *relay) encode(id string, excluded []string, target string, args []any) ([]byte, error) {
	scratch := r.hub.scratch.Get().(*[]byte)
	defer r.hub.scratch.Put(scratch)
	var frames [maxProtocols]dialect.Frame
	var ends [maxProtocols]int
	buf := (*scratch)[:0]
	var err error
	for i, p := range r.hub.opts.Protocols {
		if buf, err = p.AppendInvocation(buf, id, target, args); err != nil {
			return nil, err
		}
		ends[i] = len(buf)
	}
	start := 0
	for i, p := range r.hub.opts.Protocols {
		frames[i] = dialect.Frame{Protocol: p.Name(), Data: buf[start:ends[i]]}
		start = ends[i]
	}
	if cap(buf) <= scratchKeep {
		*scratch = buf
	}
	channel := ""
	if id != "" {
		channel = r.hub.names.Return(r.server)
	}
	return dialect.AppendInvocationTo(nil, excluded, frames[:len(r.hub.opts.Protocols)], id, channel, nil), nil
}

// scratchKeep is the largest scratch buffer that is kept, in bytes.
const scratchKeep = 64 << 10

// deliver takes one message from the backplane. It only looks up and queues.
func (r *relay) deliver(channel string, payload []byte) {
	kind, name, ok := r.hub.names.ParseChannel(channel)
	if !ok {
		return
	}
	var err error
	switch kind {
	case dialect.All:
		err = r.deliverTo(&r.hub.registry.all, payload, true)
	case dialect.Group:
		err = r.deliverTo(r.hub.registry.group(name), payload, true)
	case dialect.User:
		err = r.deliverTo(r.hub.registry.user(name), payload, false)
	case dialect.Connection:
		if c := r.hub.registry.conn(name); c != nil {
			err = r.deliverOne(c, payload)
		}
	case dialect.GroupCommands:
		err = r.groupCommand(payload)
	case dialect.Ack:
		var id int32
		if id, err = dialect.ParseAck(payload); err == nil {
			r.waiters.done(id)
		}
	case dialect.Return:
		err = r.clientResult(payload)
	}
	r.hub.stats.received.Add(1)
	if err != nil {
		r.hub.stats.malformed.Add(1)
		r.hub.opts.Logger.Warn("malformed message from the backplane", slog.String("channel", channel), slog.Any("err", err))
	}
}

// deliverTo queues an invocation for a set. The frames are copied once per
// protocol, not once per receiver.
func (r *relay) deliverTo(s *set, payload []byte, exclusions bool) error {
	if s == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := dialect.ParseInvocation(payload, &r.in); err != nil {
		return err
	}
	r.deliverParsed(s, exclusions)
	return nil
}

// deliverOne queues an invocation for one connection, which may have to answer
// it.
func (r *relay) deliverOne(c *conn, payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := dialect.ParseInvocation(payload, &r.in); err != nil {
		return err
	}
	if len(r.in.InvocationID) > 0 && r.in.ReturnChannel != nil {
		kind, _, ok := r.hub.names.ParseChannel(view(r.in.ReturnChannel))
		if !ok || kind != dialect.Return {
			return fmt.Errorf("hub: %.64q is no return channel of this hub", r.in.ReturnChannel)
		}
		if !r.register(c, r.in.InvocationID, r.in.ReturnChannel) {
			return nil
		}
	}
	r.deliverParsed(&set{members: []*conn{c}}, false)
	return nil
}

// deliverParsed queues the parsed invocation; r.mu is held.
func (r *relay) deliverParsed(s *set, exclusions bool) {
	excluded := r.excluded[:0]
	if exclusions {
		for _, id := range r.in.Excluded {
			excluded = append(excluded, view(id))
		}
	}
	var p prepared
	defer p.release()
	for i, proto := range r.hub.opts.Protocols {
		if r.hub.stats.byProtocol[i].Load() == 0 {
			continue
		}
		frame, ok := r.in.Frame(proto.Name())
		if !ok {
			if frame, ok = r.transcode(proto); !ok {
				continue
			}
		}
		buf := append(transport.BeginMessage(len(frame)), frame...)
		p[i] = r.hub.newMessage(buf, proto.Binary())
	}
	if s.deliver(&p, excluded) > yieldAbove {
		runtime.Gosched()
	}
	clear(excluded)
	r.excluded = excluded[:0]
}

// transcode makes the frame for a protocol that the sender left out from one
// that is there. Receivers of protocols that cannot be served get nothing.
func (r *relay) transcode(to protocol.Protocol) ([]byte, bool) {
	for _, from := range r.hub.opts.Protocols {
		frame, ok := r.in.Frame(from.Name())
		if !ok {
			continue
		}
		body, size, err := from.Cut(frame, 0)
		if err != nil || size == 0 {
			continue
		}
		var m protocol.Message
		if from.Parse(body, &m) != nil || m.Type != protocol.Invocation {
			continue
		}
		args := make([]any, len(m.Arguments))
		for i, raw := range m.Arguments {
			args[i] = protocol.NewValue(from, raw)
		}
		if out, err := to.AppendInvocation(nil, string(m.InvocationID), string(m.Target), args); err == nil {
			r.hub.stats.transcoded.Add(1)
			return out, true
		}
	}
	return nil, false
}

// stop waits for the work that other instances asked for.
func (r *relay) stop() {
	if r == nil {
		return
	}
	r.unsubscribe(r.standing()...)
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.work.Wait()
}
