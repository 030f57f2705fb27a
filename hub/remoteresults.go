package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/dialect"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// ask asks a connection of another instance. The owner is looked for while the
// question is on its way.
func (r *relay) ask(ctx context.Context, connectionID string, q *question, target string, args []any) (clientAnswer, error) {
	payload, err := r.encode(q.id, nil, target, args)
	if err != nil {
		return clientAnswer{}, err
	}
	if err := r.hub.questions.add(q); err != nil {
		return clientAnswer{}, err
	}
	defer r.hub.questions.drop(q)
	if err := r.publish(ctx, r.hub.names.Connection(connectionID), payload); err != nil {
		return clientAnswer{}, err
	}
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	lost := make(chan error, 1)
	watching.Go(func() { r.watchOwner(watch, connectionID, lost) })
	defer watching.Wait()
	defer stop()
	return r.hub.await(ctx, q, nil, lost)
}

// watchOwner looks, at once and every second until ctx ends, whether anybody
// listens for the connection, and says so when not. When the first look fails
// the question cannot be put; later ones may.
func (r *relay) watchOwner(ctx context.Context, connectionID string, lost chan<- error) {
	err := r.mustExist(ctx, connectionID)
	if err != nil && ctx.Err() == nil {
		lost <- err
		return
	}
	again := time.NewTicker(ownerCheck)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if err = r.mustExist(ctx, connectionID); errors.Is(err, ErrConnectionNotFound) {
			lost <- err
			return
		}
	}
}

// register notes that another instance waits for what c answers, before c is
// asked. r.mu is held. It returns false when the question cannot be put.
func (r *relay) register(c *conn, id, channel []byte) bool {
	q := &question{id: string(id), conn: c, channel: string(channel)}
	q.expiry = time.AfterFunc(questionLife, func() { r.hub.questions.drop(q) })
	err := r.hub.questions.add(q)
	if err == nil && c.closing.Load() != 0 && r.hub.questions.drop(q) {
		r.passOnLocked(q, c.protocol.Name(), c.protocol.AppendError(nil, q.id, disconnectedText))
		return false
	}
	if err == nil {
		return true
	}
	q.expiry.Stop()
	r.hub.opts.Logger.Warn("question of another instance refused", slog.String("conn", c.id), slog.Any("err", err))
	if errors.Is(err, ErrUnavailable) {
		r.passOnLocked(q, c.protocol.Name(), c.protocol.AppendError(nil, q.id, "The server waits for too many client results."))
	}
	return false
}

// passOn publishes a completion to the instance that asked. When too much is
// under way already it is dropped and counted, and that one waits in vain.
func (r *relay) passOn(q *question, protocolName string, frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passOnLocked(q, protocolName, frame)
}

func (r *relay) passOnLocked(q *question, protocolName string, frame []byte) {
	if r.stopped {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		r.hub.stats.refusedCommands.Add(1)
		return
	}
	payload := dialect.AppendCompletion(nil, dialect.Completion{Protocol: protocolName, Frame: frame})
	r.work.Go(func() {
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), DefaultBackplaneTimeout)
		defer cancel()
		if err := r.publish(ctx, q.channel, payload); err != nil {
			r.hub.opts.Logger.Warn("pass a client result on", slog.Any("err", err))
		}
	})
}

// clientResult takes a completion that another instance has passed on.
func (r *relay) clientResult(payload []byte) error {
	in, err := dialect.ParseCompletion(payload)
	if err != nil {
		return err
	}
	p := knownProtocol(in.Protocol, r.hub.opts.Protocols)
	if p == nil {
		return fmt.Errorf("hub: a client result in protocol %q, which is not known here", in.Protocol)
	}
	body, size, err := p.Cut(in.Frame, 0)
	if err != nil {
		return err
	}
	var m protocol.Message
	if size == 0 || p.Parse(body, &m) != nil || m.Type != protocol.Completion {
		return errors.New("hub: a client result that is no completion")
	}
	q, _ := r.hub.questions.take(m.InvocationID, nil)
	switch {
	case q == nil:
		r.hub.stats.strays.Add(1)
	case m.HasError && string(m.Error) == disconnectedText:
		q.answered <- clientAnswer{err: fmt.Errorf("%w: it ended before it answered", ErrConnectionNotFound)}
	default:
		q.answered <- answerOf(p, &m)
	}
	return nil
}

// knownProtocol finds a protocol by its exact name, among those of the hub and
// those that there are.
func knownProtocol(name string, enabled []protocol.Protocol) protocol.Protocol {
	for _, p := range enabled {
		if p.Name() == name {
			return p
		}
	}
	for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
		if p.Name() == name {
			return p
		}
	}
	return nil
}
