package backplane

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed hand_over.lua
var handOverSource string

// claimPrefix follows KeyPrefix in the keys of claims.
const claimPrefix = "claim:"

// Claim takes a name for an owner and a time, unless somebody has it, and
// returns who has it then: for that time nobody else gets it, on any instance.
// The owner is stored under KeyPrefix + "claim:" + name (SET NX PX) and goes by
// itself. Life is at least a millisecond. Claim waits as Receivers does; after
// an error the name may have been taken.
func (r *Redis) Claim(ctx context.Context, name, owner string, life time.Duration) (holder string, err error) {
	if life < time.Millisecond {
		return "", fmt.Errorf("backplane: claim: a life of %v is none", life)
	}
	key := r.keys.prefix + claimPrefix + name
	err = r.command(ctx, func(ctx context.Context, c *redis.Client) error {
		pipe := c.Pipeline()
		pipe.SetNX(ctx, key, owner, life)
		get := pipe.Get(ctx, key)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		holder = get.Val()
		return nil
	})
	return holder, wrap("claim", err)
}

// HandOver makes another owner that of a name, for the rest of its time, if
// owner has it. It waits as Receivers does.
func (r *Redis) HandOver(ctx context.Context, name, owner, to string) error {
	key := r.keys.prefix + claimPrefix + name
	err := r.command(ctx, func(ctx context.Context, c *redis.Client) error {
		return r.handOver.Run(ctx, c, []string{key}, owner, to).Err()
	})
	return wrap("hand over", err)
}
