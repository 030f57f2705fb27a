package transport

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of Claims.
var (
	// ErrTokenInUse means that the token's connection is alive: 409.
	ErrTokenInUse = errors.New("transport: token in use")

	// ErrTokenSpent means that the token's connection is over: 404.
	ErrTokenSpent = errors.New("transport: token spent")

	// ErrClaimsFull means that no further token can be remembered: 503.
	ErrClaimsFull = errors.New("transport: too many tokens to remember")
)

// Claims remembers which connection tokens were used, so that each opens one
// connection. Connections are known by their public id; until is when the
// token ends, on the clock of the KeySource: nothing need be remembered about
// an ended connection after that.
type Claims interface {
	// Claim makes the token the caller's. It fails with ErrTokenInUse,
	// ErrTokenSpent or ErrClaimsFull; any other error means that it is not
	// known who holds the token, and refuses the connection with 503.
	Claim(ctx context.Context, id string, until time.Time) error

	// Release ends a claim. The token is spent if its connection came into
	// being, and on this instance as before the claim if not. It must not
	// block.
	Release(id string, until time.Time, spent bool)

	// InUse reports whether this instance holds the token. It must not
	// block.
	InUse(id string) bool
}

// fleetClaims is implemented by Claims that can say whether another instance
// holds a token whose time is over, so that a second socket is answered alike
// everywhere. It may ask others and wait for ctx.
type fleetClaims interface {
	InUseElsewhere(ctx context.Context, id string) bool
}

// NewClaims returns the Claims of an instance that is alone, in memory. Limit
// bounds the spent tokens that have not expired; now is the clock of their
// KeySource.
func NewClaims(limit int, now func() time.Time) Claims {
	return &memoryClaims{limit: limit, now: now, live: map[string]struct{}{}}
}

// memoryClaims forgets spent tokens by generations: a spent token goes into
// the young generation, and the young one becomes the old one when every token
// of that has expired. So nothing is ever searched for what to forget, and
// what is kept is at most what was spent in two token lifetimes.
type memoryClaims struct {
	limit int
	now   func() time.Time

	mu         sync.Mutex
	live       map[string]struct{}
	young, old generation
}

type generation struct {
	spent map[string]struct{}
	until time.Time // when the last of them has expired
}

func (m *memoryClaims) Claim(_ context.Context, id string, _ time.Time) error {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	if _, ok := m.live[id]; ok {
		return ErrTokenInUse
	}
	_, young := m.young.spent[id]
	_, old := m.old.spent[id]
	if young || old {
		return ErrTokenSpent
	}
	if len(m.young.spent)+len(m.old.spent) >= m.limit {
		return ErrClaimsFull
	}
	m.live[id] = struct{}{}
	return nil
}

func (m *memoryClaims) Release(id string, until time.Time, spent bool) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	delete(m.live, id)
	if !spent || !until.After(now) {
		return
	}
	if m.young.spent == nil {
		m.young.spent = make(map[string]struct{})
	}
	m.young.spent[id] = struct{}{}
	if until.After(m.young.until) {
		m.young.until = until
	}
}

func (m *memoryClaims) InUse(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.live[id]
	return ok
}

// forget lets go of a generation whose tokens have all expired.
func (m *memoryClaims) forget(now time.Time) {
	if !m.old.until.After(now) {
		m.old, m.young = m.young, generation{}
		if !m.old.until.After(now) {
			m.old = generation{}
		}
	}
}
