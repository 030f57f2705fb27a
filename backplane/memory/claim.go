package memory

import (
	"context"
	"fmt"
	"time"
)

// sweepAbove is how many claims there are before the first look for those that
// are over.
const sweepAbove = 1024

// A claim is a name that an owner has for a time.
type claim struct {
	owner string
	until time.Time
}

// Claim takes a name for an owner and a time, and reports whether the owner has
// it: for that time nobody else gets it.
func (p *Backplane) Claim(_ context.Context, name, owner string, life time.Duration) (owned bool, err error) {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case p.closed:
		return false, fmt.Errorf("memory: claim: %w", ErrClosed)
	case !p.link.Up:
		return false, fmt.Errorf("memory: claim: %w", ErrUnavailable)
	}
	now := time.Now()
	if c, taken := b.claims[name]; taken && now.Before(c.until) {
		return c.owner == owner, nil
	}
	if len(b.claims) >= b.sweep {
		for name, c := range b.claims {
			if !now.Before(c.until) {
				delete(b.claims, name)
			}
		}
		b.sweep = max(sweepAbove, 2*len(b.claims))
	}
	b.claims[name] = claim{owner, now.Add(life)}
	return true, nil
}
