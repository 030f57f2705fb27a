package backplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// awaitLink is the link that is up. It waits only while a short interruption,
// or the start of Run, is bridged.
func (r *Redis) awaitLink(ctx context.Context) (*link, error) {
	for {
		r.mu.Lock()
		l, bridging, changed := r.current.Load(), r.bridging, r.changed
		r.mu.Unlock()
		if l != nil {
			return l, nil
		}
		if !bridging {
			return nil, ErrUnavailable
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// command runs one exchange on a command connection of the present link, with
// a time limit.
func (r *Redis) command(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	l, err := r.awaitLink(ctx)
	if err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-l.ctx.Done():
		return ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
	c, used := l.takeClient()
	err = f(ctx, c)
	if used && errors.Is(err, errDialedTwice) {
		// The idle connection had been closed; nothing was written to it.
		c.Close()
		c = l.newClient()
		err = f(ctx, c)
	}
	l.returnClient(c, err)
	return classify(err)
}

// newClient is a client of one connection that has yet to be dialed.
func (l *link) newClient() *redis.Client {
	opt := l.r.clientOptions("command")
	opt.Dialer, _ = l.singleDial()
	return redis.NewClient(opt)
}

// takeClient takes the client used last, or makes one. The caller holds a
// slot, which bounds how many there are.
func (l *link) takeClient() (c *redis.Client, used bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		c, l.idle = l.idle[n-1], l.idle[:n-1]
		return c, true
	}
	return l.newClient(), false
}

// returnClient keeps a client whose connection is still good for the next
// command.
func (l *link) returnClient(c *redis.Client, err error) {
	_, reply := err.(redis.Error)
	l.mu.Lock()
	keep := !l.ended && (err == nil || reply)
	if keep {
		l.idle = append(l.idle, c)
	}
	l.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// Receivers asks Redis how many connections are subscribed to the channel
// (PUBSUB NUMSUB). It waits for ctx and at most 5 s; while Redis is declared
// away, and before Run, the error is ErrUnavailable at once.
func (r *Redis) Receivers(ctx context.Context, channel string) (int, error) {
	name := r.opt.ChannelPrefix + channel
	var receivers int64
	err := r.command(ctx, func(ctx context.Context, c *redis.Client) error {
		counts, err := c.PubSubNumSub(ctx, name).Result()
		receivers = counts[name]
		return err
	})
	return int(receivers), wrap("receivers", err)
}

// Check connects once, on a connection of its own, and says what is wrong:
// ErrAuth (user, password, permission), ErrNotRedis (something else answers
// there, or TLS on one side only) or ErrUnavailable. The text fits on one line
// and holds no password. It waits for ctx and at most some 5 s.
func (r *Redis) Check(ctx context.Context) error {
	l := r.newLink(ctx, 0)
	defer l.end(errClosing)
	opt := r.clientOptions("check")
	dial, place := l.singleDial()
	opt.Dialer = dial
	c := redis.NewClient(opt)
	defer c.Close()
	err := l.bounded(func(ctx context.Context) error { return c.Ping(ctx).Err() })
	if err == nil {
		return nil
	}
	return fmt.Errorf("backplane: redis at %s: %w", r.server.Addr, classify(explain(err, place.Load())))
}

// RouteLogs sends what go-redis logs to l, at debug level; nil discards it. By
// default it goes to standard error. The setting belongs to go-redis and holds
// for the whole process, which is why only a program calls this.
func RouteLogs(l *slog.Logger) {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	redis.SetLogger(logAdapter{l})
}

// logAdapter is a go-redis logger.
type logAdapter struct{ log *slog.Logger }

// Printf logs one line at debug level.
func (a logAdapter) Printf(ctx context.Context, format string, v ...any) {
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.DebugContext(ctx, fmt.Sprintf(format, v...), "source", "go-redis")
	}
}
