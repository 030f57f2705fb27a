package backplane

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Claim takes a name for an owner and a time, and reports whether the owner has
// it: for that time nobody else gets it, on any instance. The owner is stored
// under KeyPrefix + "claim:" + name (SET NX PX) and goes by itself. Life is at
// least a millisecond. Claim waits as Receivers does; after an error the name
// may have been taken.
func (r *Redis) Claim(ctx context.Context, name, owner string, life time.Duration) (owned bool, err error) {
	if life < time.Millisecond {
		return false, fmt.Errorf("backplane: claim: a life of %v is none", life)
	}
	key := r.keys.prefix + claimPrefix + name
	err = r.command(ctx, func(ctx context.Context, c *redis.Client) error {
		pipe := c.Pipeline()
		pipe.SetNX(ctx, key, owner, life)
		holder := pipe.Get(ctx, key)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		owned = holder.Val() == owner
		return nil
	})
	return owned, wrap("claim", err)
}

// claimPrefix follows KeyPrefix in the keys of claims.
const claimPrefix = "claim:"
