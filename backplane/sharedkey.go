package backplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keyBytes is the length of a shared key.
	keyBytes = 32
	// keyTTL is how long Redis keeps a key that no instance renews.
	keyTTL = 10 * time.Minute
	// keyRefresh is how often each instance renews it and looks.
	keyRefresh = 10 * time.Second
	// keyGrace is how long a key that was replaced stays acceptable.
	keyGrace = 10 * time.Minute
	// keyHistory bounds the keys that were replaced, newest first.
	keyHistory = 4
)

// SharedKey is a secret all instances on one Redis have in common, and the
// clock they agree on. It is an alias of a plain interface so that a package
// that does not import this one can name the same type. Its methods never
// wait.
type SharedKey = interface {
	// Keys returns the key to sign with, and those that are still acceptable
	// because they were current a short while ago. The slices must not be
	// changed.
	Keys() (current []byte, previous [][]byte)
	// Now is the time of Redis (TIME), measured at each refresh and carried on
	// with the local monotonic clock, exact to half a round trip; the local
	// time until Redis was reached.
	Now() time.Time
}

// keyring holds the shared keys of a process.
type keyring struct {
	prefix string
	stale  chan struct{} // capacity 1: refresh at once

	mu    sync.Mutex
	clock clock
	keys  map[string]*sharedKey
}

// sharedKey is one of them.
type sharedKey struct {
	ring *keyring
	name string

	// guarded by ring.mu
	known    bool // Redis has the current one
	current  []byte
	previous []retiredKey // newest first
}

type retiredKey struct {
	key   []byte
	until time.Time // local, with its monotonic part
}

func newKeyring(prefix string) *keyring {
	return &keyring{prefix: prefix, stale: make(chan struct{}, 1), keys: make(map[string]*sharedKey)}
}

// SharedKey returns the secret stored under KeyPrefix + name, making it if
// there is none. Redis keeps it for 10 minutes after the last instance
// renewed it; Run does so every 10 s. Calls for a name that has not been found in
// Redis yet wait for it as Receivers does. Without a link the key is a local random one; once Redis
// is reached, the one stored there becomes current and the local one stays
// acceptable here for 10 minutes, as does any key that was replaced because
// Redis lost it. The error is always nil; it leaves room for backplanes that
// may fail.
func (r *Redis) SharedKey(ctx context.Context, name string) (SharedKey, error) {
	key, known := r.keys.find(name)
	if !known {
		if err := r.refreshKey(ctx, key); err != nil {
			r.log.Debug("shared key is a local one for now", "key", key.name, "err", err)
		}
	}
	return key, nil
}

// find returns the key of that name, made if there is none; known says that
// Redis has it.
func (k *keyring) find(name string) (key *sharedKey, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key, ok := k.keys[name]; ok {
		return key, key.known
	}
	key = &sharedKey{ring: k, name: k.prefix + name, current: make([]byte, keyBytes)}
	rand.Read(key.current) // never fails
	k.keys[name] = key
	return key, false
}

func (k *keyring) all() []*sharedKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	keys := make([]*sharedKey, 0, len(k.keys))
	for _, key := range k.keys {
		keys = append(keys, key)
	}
	return keys
}

// wake asks for a refresh now.
func (k *keyring) wake() {
	select {
	case k.stale <- struct{}{}:
	default:
	}
}

// Keys implements SharedKey.
func (s *sharedKey) Keys() (current []byte, previous [][]byte) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	now := time.Now()
	for _, old := range s.previous {
		if now.Before(old.until) {
			previous = append(previous, old.key)
		}
	}
	return s.current, previous
}

// Now implements SharedKey.
func (s *sharedKey) Now() time.Time {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	return s.ring.clock.now()
}

// adopt makes the stored key the current one.
func (s *sharedKey) adopt(stored []byte, clock clock) (changed bool) {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	s.ring.clock, s.known = clock, true
	if bytes.Equal(stored, s.current) {
		return false
	}
	retired := []retiredKey{{s.current, time.Now().Add(keyGrace)}}
	for _, old := range s.previous {
		if len(retired) < keyHistory && !bytes.Equal(old.key, stored) {
			retired = append(retired, old)
		}
	}
	s.current, s.previous = stored, retired
	return true
}

// refreshKeys renews all keys now and then until ctx ends.
func (r *Redis) refreshKeys(ctx context.Context) {
	tick := time.NewTicker(keyRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.keys.stale:
		}
		if r.current.Load() == nil {
			continue // the next link wakes us
		}
		for _, key := range r.keys.all() {
			if err := r.refreshKey(ctx, key); err != nil && ctx.Err() == nil {
				r.log.Warn("shared key not refreshed", "key", key.name, "err", err)
			}
		}
	}
}

// refreshKey stores our key if there is none, renews what is stored, and takes
// it over.
func (r *Redis) refreshKey(ctx context.Context, key *sharedKey) error {
	current, _ := key.Keys()
	var stored []byte
	var measured clock
	err := r.command(ctx, func(ctx context.Context, c *redis.Client) error {
		pipe := c.Pipeline()
		pipe.SetNX(ctx, key.name, current, keyTTL)
		get := pipe.Get(ctx, key.name)
		pipe.PExpire(ctx, key.name, keyTTL)
		at := pipe.Time(ctx)
		sent := time.Now()
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		measured = clock{at: sent.Add(time.Since(sent) / 2), time: at.Val()}
		var err error
		stored, err = get.Bytes()
		return err
	})
	if err != nil {
		return err
	}
	if len(stored) != keyBytes {
		return fmt.Errorf("%d bytes are stored, want %d", len(stored), keyBytes)
	}
	if key.adopt(stored, measured) {
		r.log.Info("shared key adopted", "key", key.name)
	}
	return nil
}

// clock tells the time of Redis without asking it each time.
type clock struct {
	at   time.Time // local reading, with its monotonic part
	time time.Time // Redis's at that moment
}

// now is Redis's time, or the local one if Redis was never asked.
func (c clock) now() time.Time {
	if c.at.IsZero() {
		return time.Now()
	}
	return c.time.Add(time.Since(c.at))
}
