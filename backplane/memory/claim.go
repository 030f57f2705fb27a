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

// Claim takes a name for an owner and a time, unless somebody has it, and
// returns who has it then: for that time nobody else gets it.
func (p *Backplane) Claim(_ context.Context, name, owner string, life time.Duration) (holder string, err error) {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := p.away("claim"); err != nil {
		return "", err
	}
	now := time.Now()
	if c, taken := b.claims[name]; taken && now.Before(c.until) {
		return c.owner, nil
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
	return owner, nil
}

// HandOver makes another owner that of a name, for the rest of its time, if
// owner has it.
func (p *Backplane) HandOver(_ context.Context, name, owner, to string) error {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := p.away("hand over"); err != nil {
		return err
	}
	if c, taken := b.claims[name]; taken && c.owner == owner && time.Now().Before(c.until) {
		c.owner = to
		b.claims[name] = c
	}
	return nil
}

// away says why nothing can be claimed; broker.mu is held.
func (p *Backplane) away(doing string) error {
	switch {
	case p.closed:
		return fmt.Errorf("memory: %s: %w", doing, ErrClosed)
	case !p.link.Up:
		return fmt.Errorf("memory: %s: %w", doing, ErrUnavailable)
	}
	return nil
}
