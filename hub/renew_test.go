package hub

import (
	"testing"
	"time"
)

func TestAFreshIdentityThatNeverExpiresLiftsTheOldEnd(t *testing.T) {
	c := &conn{}
	c.renew(&Identity{Expires: time.Now().Add(time.Minute)})
	c.renew(&Identity{}) // zero: never
	if c.expires.Load() != 0 {
		t.Error("the connection still ends with the old authentication")
	}
}
