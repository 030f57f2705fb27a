package hub

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// sharedClaimer is a backplane on which all instances can take a name, of
// which one gets it.
type sharedClaimer interface {
	Claim(ctx context.Context, name, owner string, life time.Duration) (owned bool, err error)
}

const (
	// claimMargin is added to the life of a claim, for clocks that differ.
	claimMargin = time.Second

	// claimTimeout bounds the wait for the backplane; without its answer the
	// instance decides alone.
	claimTimeout = time.Second

	spentTokens = transport.DefaultSpentTokens
)

// fleetClaims let one token open one connection in the whole fleet: who opens
// one takes its id on the backplane for as long as the token lives. While the
// backplane is away each instance decides for itself, so that clients get in.
type fleetClaims struct {
	transport.Claims // what this instance knows
	hub              *Hub
	shared           sharedClaimer
	owner            string // this hub in this process
}

func newFleetClaims(h *Hub, shared sharedClaimer) transport.Claims {
	return &fleetClaims{Claims: transport.NewClaims(spentTokens, h.keys.Now), hub: h, shared: shared, owner: uuid.NewString()}
}

// Claim implements transport.Claims.
func (f *fleetClaims) Claim(ctx context.Context, id string, until time.Time) error {
	if err := f.Claims.Claim(ctx, id, until); err != nil {
		return err
	}
	life := max(0, until.Sub(f.hub.keys.Now())) + claimMargin
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	owned, err := f.shared.Claim(ctx, f.hub.opts.Name+"/"+id, f.owner, life)
	switch {
	case err != nil:
		f.hub.stats.claimsAlone.Add(1)
		f.hub.opts.Logger.Debug("token claimed on this instance alone", slog.String("conn", id), slog.Any("err", err))
		return nil
	case owned:
		return nil
	}
	f.Claims.Release(id, until, false)
	if f.InUseElsewhere(ctx, id) {
		return transport.ErrTokenInUse
	}
	return transport.ErrTokenSpent
}

// InUseElsewhere reports whether another instance holds the connection, as far
// as can be told: whoever does is subscribed to its channel.
func (f *fleetClaims) InUseElsewhere(ctx context.Context, id string) bool {
	n, err := f.hub.relay.bp.Receivers(ctx, f.hub.names.Connection(id))
	return err == nil && n > 0
}
