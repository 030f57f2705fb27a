package transport

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestClaims(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	now := start
	c := NewClaims(2, func() time.Time { return now })
	until := start.Add(15 * time.Second)
	claim := func(id string, want error) {
		t.Helper()
		if err := c.Claim(t.Context(), id, until); !errors.Is(err, want) {
			t.Errorf("claim %s: got %v, want %v", id, err, want)
		}
	}

	claim("a", nil)
	claim("a", ErrTokenInUse)
	if !c.InUse("a") || c.InUse("b") {
		t.Error("got a unused or b in use")
	}
	c.Release("a", until, false)
	claim("a", nil) // was given back
	c.Release("a", until, true)
	claim("a", ErrTokenSpent)
	if c.InUse("a") {
		t.Error("got a spent token in use")
	}

	claim("b", nil)
	c.Release("b", until, true)
	claim("c", ErrClaimsFull)
	now = until
	claim("c", nil)
	now = until.Add(time.Hour)
	claim("c", ErrTokenInUse) // however old
	c.Release("c", until, true)
	claim("c", nil) // the token itself has expired: nothing was remembered
}

// TestClaimsForget opens and ends connections for an hour and looks at what is
// remembered: that, and only that, must refuse.
func TestClaimsForget(t *testing.T) {
	const life = 15 * time.Second
	now := time.Unix(1_000_000, 0)
	c := NewClaims(1<<20, func() time.Time { return now }).(*memoryClaims)
	ends := map[string]time.Time{}
	for i := range 3600 {
		id, until := fmt.Sprint(i), now.Add(life)
		if err := c.Claim(t.Context(), id, until); err != nil {
			t.Fatal(err)
		}
		c.Release(id, until, true)
		ends[id] = until
		now = now.Add(time.Second)
		for id, until := range ends {
			if !until.After(now) {
				delete(ends, id)
			} else if err := c.Claim(t.Context(), id, until); !errors.Is(err, ErrTokenSpent) {
				t.Fatalf("second %d: claim %s: got %v, want spent", i, id, err)
			}
		}
		if n := len(c.young.spent) + len(c.old.spent); n > 2*15+1 {
			t.Fatalf("second %d: %d tokens are remembered", i, n)
		}
	}
	now = now.Add(life)
	if err := c.Claim(t.Context(), "last", now.Add(life)); err != nil {
		t.Fatal(err)
	}
	if n := len(c.young.spent) + len(c.old.spent); n != 0 {
		t.Errorf("%d tokens are remembered after all have expired", n)
	}
}
