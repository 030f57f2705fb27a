package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
)

const (
	contactTimeout = 3 * time.Second
	contactRetry   = time.Second
	contactWarn    = 10 * time.Second // at most one warning in this time
)

// firstContact looks at Redis before anything starts. Whatever waiting cannot
// mend is an error under every policy.
func (s *Server) firstContact(ctx context.Context) error {
	if s.redis == nil {
		return nil
	}
	err := s.contact(ctx)
	switch {
	case err == nil:
		return nil
	case hopeless(err):
		return fmt.Errorf("redis: %w", err)
	case s.cfg.OnRedisMissing == Fail:
		return fmt.Errorf("%w: %w", errMissing, err)
	}
	s.cfg.Logger.Warn("redis cannot be reached; not ready until it can", slog.Any("err", err))
	return nil
}

func (s *Server) contact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	return s.redis.Check(ctx)
}

// hopeless reports whether an error will not go away by waiting: a wrong
// password or permission, or a server that is no Redis.
func hopeless(err error) bool {
	return errors.Is(err, backplane.ErrAuth) || errors.Is(err, backplane.ErrNotRedis)
}

// watchFirstContact goes on looking until Redis was reached once, so that a
// wrong password is found out even if Redis comes late.
func (s *Server) watchFirstContact(ctx context.Context) error {
	if s.redis == nil {
		return nil
	}
	retry := time.NewTicker(contactRetry)
	defer retry.Stop()
	var warned time.Time
	for !s.started() {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		}
		err := s.contact(ctx)
		if err != nil && hopeless(err) {
			return err
		}
		if err != nil && time.Since(warned) > contactWarn {
			warned = time.Now()
			s.cfg.Logger.Warn("redis still cannot be reached", slog.Any("err", err))
		}
	}
	return nil
}
