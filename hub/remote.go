package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/dialect"
)

// groupCommand applies another instance's change to a connection of ours and
// acknowledges it once it is in force.
func (r *relay) groupCommand(payload []byte) error {
	cmd, err := dialect.ParseGroupCommand(payload)
	if err != nil {
		return err
	}
	c := r.hub.registry.conn(cmd.ConnectionID)
	if c == nil {
		return nil
	}
	select {
	case r.slots <- struct{}{}:
	default:
		r.hub.stats.refusedCommands.Add(1)
		return nil
	}
	// In the order of the channel: only the wait for Redis is left to the side.
	var m *membership
	if cmd.Action == dialect.Add {
		m, err = c.enter(cmd.Group)
	} else {
		c.leave(cmd.Group)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil // and the connection is at its end, too
	}
	r.work.Go(func() {
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(c.ctx, r.hub.opts.AckTimeout)
		defer cancel()
		if m != nil {
			err = c.settle(ctx, cmd.Group, m)
		}
		// A connection that ends meanwhile is in no group, which is acknowledged.
		if err != nil && c.ctx.Err() == nil {
			r.hub.opts.Logger.Warn("group change for another instance", slog.String("conn", c.id), slog.Any("err", err))
			return
		}
		ack := dialect.AppendAck(nil, cmd.ID)
		ackCtx, cancelAck := context.WithTimeout(context.WithoutCancel(ctx), DefaultBackplaneTimeout)
		defer cancelAck()
		if err := r.publish(ackCtx, r.hub.names.Ack(cmd.Server), ack); err != nil {
			r.hub.opts.Logger.Warn("acknowledge group change", slog.Any("err", err))
		}
	})
	return nil
}

// changeRemote asks the instance that owns a connection for a group change and
// waits for its acknowledgement.
func (r *relay) changeRemote(ctx context.Context, action dialect.Action, connectionID, group string) error {
	if r == nil {
		return ErrConnectionNotFound
	}
	if err := r.mustExist(ctx, connectionID); err != nil {
		return err
	}
	id, acked, err := r.waiters.add()
	if err != nil {
		return err
	}
	defer r.waiters.remove(id)
	cmd := dialect.AppendGroupCommand(nil, dialect.GroupCommand{
		ID: id, Server: r.server, Action: action, Group: group, ConnectionID: connectionID,
	})
	if err := r.publish(ctx, r.hub.names.GroupCommands(), cmd); err != nil {
		return err
	}
	deadline := time.NewTimer(r.hub.opts.AckTimeout)
	defer deadline.Stop()
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for {
		select {
		case <-acked:
			return nil
		case <-check.C:
			// A frozen owner still listens; one that is gone does not.
			if err := r.mustExist(ctx, connectionID); errors.Is(err, ErrConnectionNotFound) {
				return err
			}
		case <-deadline.C:
			return ErrNoAnswer
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mustExist asks whether any instance listens for the connection.
func (r *relay) mustExist(ctx context.Context, connectionID string) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultBackplaneTimeout)
	defer cancel()
	n, err := r.bp.Receivers(ctx, r.hub.names.Connection(connectionID))
	switch {
	case err != nil:
		return fmt.Errorf("hub: look up connection: %w: %w", ErrUnavailable, err)
	case n == 0:
		return ErrConnectionNotFound
	}
	return nil
}

// maxWaiters bounds the acknowledgements waited for at once.
const maxWaiters = 10000

// waiters are the group changes that wait for their acknowledgement.
type waiters struct {
	mu   sync.Mutex
	last int32
	byID map[int32]chan struct{}
}

func (w *waiters) add() (int32, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byID) >= maxWaiters {
		return 0, nil, fmt.Errorf("hub: %d group changes wait already: %w", maxWaiters, ErrUnavailable)
	}
	for {
		w.last++ // wraps to negative numbers, as .NET does
		if _, taken := w.byID[w.last]; !taken {
			break
		}
	}
	acked := make(chan struct{})
	w.byID[w.last] = acked
	return w.last, acked, nil
}

func (w *waiters) done(id int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if acked, ok := w.byID[id]; ok {
		delete(w.byID, id)
		close(acked)
	}
}

func (w *waiters) remove(id int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byID, id)
}
