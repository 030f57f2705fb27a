package hub

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// sharedClaimer is a backplane on which all instances can take a name, of
// which one gets it.
type sharedClaimer interface {
	// Claim returns who has the name then.
	Claim(ctx context.Context, name, owner string, life time.Duration) (holder string, err error)

	// HandOver makes another owner that of the name, for the rest of its time.
	HandOver(ctx context.Context, name, owner, to string) error
}

const (
	// claimMargin is added to the life of a claim, for clocks that differ.
	claimMargin = time.Second

	// claimTimeout bounds the wait for the backplane; without its answer the
	// instance decides alone.
	claimTimeout = time.Second

	// lateTimeout bounds the question who holds a token that came too late.
	lateTimeout = 250 * time.Millisecond

	// spentMark is behind the owner of a claim whose connection is over.
	spentMark = ":spent"

	// maxHandOvers bounds the claims that are being marked as spent at once;
	// what is above is not marked, and answered as in use while it lives.
	maxHandOvers = 256

	spentTokens = transport.DefaultSpentTokens
)

// fleetClaims let one token open one connection in the whole fleet: who opens
// one takes its id on the backplane for as long as the token lives. While the
// backplane is away each instance decides for itself, so that clients get in. A
// token that was claimed and then not used stays its instance's.
type fleetClaims struct {
	transport.Claims // what this instance knows
	hub              *Hub
	shared           sharedClaimer
	owner            string // this hub in this process

	marking sync.WaitGroup
	slots   chan struct{}
}

func newFleetClaims(h *Hub, shared sharedClaimer) *fleetClaims {
	return &fleetClaims{
		Claims: transport.NewClaims(spentTokens, h.keys.Now), hub: h, shared: shared,
		owner: uuid.NewString(), slots: make(chan struct{}, maxHandOvers),
	}
}

// name is the id's on the backplane.
func (f *fleetClaims) name(id string) string { return f.hub.opts.Name + "/" + id }

// Claim implements transport.Claims.
func (f *fleetClaims) Claim(ctx context.Context, id string, until time.Time) error {
	if err := f.Claims.Claim(ctx, id, until); err != nil {
		return err
	}
	life := max(0, until.Sub(f.hub.keys.Now())) + claimMargin
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	holder, err := f.shared.Claim(ctx, f.name(id), f.owner, life)
	switch {
	case err != nil:
		f.hub.stats.claimsAlone.Add(1)
		f.hub.opts.Logger.Debug("token claimed on this instance alone", slog.String("conn", id), slog.Any("err", err))
		return nil
	case holder == f.owner:
		return nil
	}
	f.Claims.Release(id, until, false)
	if strings.HasSuffix(holder, spentMark) {
		return transport.ErrTokenSpent
	}
	return transport.ErrTokenInUse
}

// Release implements transport.Claims. The other instances are told, aside, that
// a connection is over.
func (f *fleetClaims) Release(id string, until time.Time, spent bool) {
	f.Claims.Release(id, until, spent)
	if !spent || !until.After(f.hub.keys.Now()) {
		return
	}
	select {
	case f.slots <- struct{}{}:
	default:
		return
	}
	f.marking.Go(func() {
		defer func() { <-f.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
		defer cancel()
		if err := f.shared.HandOver(ctx, f.name(id), f.owner, f.owner+spentMark); err != nil {
			f.hub.opts.Logger.Debug("token not marked as spent", slog.String("conn", id), slog.Any("err", err))
		}
	})
}

// InUseElsewhere reports whether another instance holds the connection, as far
// as can be told: whoever does is subscribed to its channel.
func (f *fleetClaims) InUseElsewhere(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	n, err := f.hub.relay.bp.Receivers(ctx, f.hub.names.Connection(id))
	return err == nil && n > 0
}

// wait waits for what is under way.
func (f *fleetClaims) wait() {
	if f != nil {
		f.marking.Wait()
	}
}
