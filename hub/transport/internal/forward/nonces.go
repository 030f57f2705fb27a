package forward

import (
	"errors"
	"sync"
)

const (
	// slotLength is the granularity with which nonces are forgotten, in
	// milliseconds.
	slotLength = 10_000

	// maxNonces bounds the nonces remembered: 17,000 requests a second from
	// other instances, if their clocks are the furthest allowed ahead. Each
	// takes about 40 bytes.
	maxNonces = 1 << 20
)

var (
	errReplay = errors.New("seen before")
	errFull   = errors.New("too many forwarded requests to remember")
)

// nonces remembers nonces until the signatures they belong to have expired.
// The zero value is ready to use, by many goroutines at once.
type nonces struct {
	mu    sync.Mutex
	slots map[int64]map[[nonceSize]byte]struct{} // guarded by mu; by end of life
	count int                                    // guarded by mu
	gone  int64                                  // guarded by mu; slots below it were forgotten
	limit int                                    // guarded by mu; 0 is maxNonces
}

// add remembers a nonce until its end of life, in milliseconds since 1970. It
// fails if the nonce is there, or might have been. Because the end of life is
// signed with the nonce, a replay looks into the same slot.
func (n *nonces) add(nonce [nonceSize]byte, until, now int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	// The clock of the keys may be set back; what was forgotten stays refused.
	if oldest := now / slotLength; oldest > n.gone {
		n.gone = oldest
		for slot, seen := range n.slots {
			if slot < oldest {
				n.count -= len(seen)
				delete(n.slots, slot)
			}
		}
	}
	slot := until / slotLength
	if slot < n.gone {
		return errReplay
	}
	seen := n.slots[slot]
	if _, ok := seen[nonce]; ok {
		return errReplay
	}
	limit := n.limit
	if limit == 0 {
		limit = maxNonces
	}
	if n.count >= limit {
		return errFull
	}
	if n.slots == nil {
		n.slots = map[int64]map[[nonceSize]byte]struct{}{}
	}
	if seen == nil {
		seen = map[[nonceSize]byte]struct{}{}
		n.slots[slot] = seen
	}
	seen[nonce] = struct{}{}
	n.count++
	return nil
}
