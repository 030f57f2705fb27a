package hub

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// tokenKeyName is the name of the secret that signs connection tokens.
const tokenKeyName = "token-key"

// sharedKeys is a backplane that also keeps secrets which all instances share,
// each with the clock that they agree on. It answers without waiting.
type sharedKeys interface {
	SharedKey(ctx context.Context, name string) (interface {
		Keys() (current []byte, previous [][]byte)
		Now() time.Time
	}, error)
}

// tokenKeys chooses what signs connection tokens. Hubs share the secret and not
// the keys: a token opens a connection of its own hub only.
func tokenKeys(opts Options) (transport.KeySource, error) {
	if opts.TokenKeys != nil {
		return &hubKeys{KeySource: opts.TokenKeys, hub: opts.Name}, nil
	}
	shared, ok := opts.Backplane.(sharedKeys)
	if !ok {
		return transport.RandomKeys(), nil
	}
	secret, err := shared.SharedKey(context.Background(), tokenKeyName)
	if err != nil {
		return nil, fmt.Errorf("hub: shared key: %w", err)
	}
	return &hubKeys{KeySource: sharedTokenKeys{secret}, hub: opts.Name}, nil
}

// hubKeys derives a hub's keys from those that all hubs share, when these have
// changed.
type hubKeys struct {
	transport.KeySource
	hub string

	mu      sync.Mutex
	from    []transport.Key // guarded by mu
	derived []transport.Key // guarded by mu; never changed once made
}

// keyLabel keeps what is derived for hubs apart from other uses of the secret.
const keyLabel = "switchboard hub\x00"

// Keys implements transport.KeySource.
func (k *hubKeys) Keys() []transport.Key {
	from := k.KeySource.Keys()
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Equal(from, k.from) {
		return k.derived
	}
	derived := make([]transport.Key, len(from))
	for i := range from {
		mac := hmac.New(sha256.New, from[i][:])
		mac.Write([]byte(keyLabel + k.hub))
		mac.Sum(derived[i][:0])
	}
	k.from, k.derived = slices.Clone(from), derived
	return derived
}

// sharedTokenKeys makes signing keys of the backplane's secret.
type sharedTokenKeys struct {
	secret interface {
		Keys() (current []byte, previous [][]byte)
		Now() time.Time
	}
}

func (s sharedTokenKeys) Keys() []transport.Key {
	current, previous := s.secret.Keys()
	keys := make([]transport.Key, 0, 1+len(previous))
	for _, secret := range append([][]byte{current}, previous...) {
		var k transport.Key
		if copy(k[:], secret) == len(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (s sharedTokenKeys) Now() time.Time { return s.secret.Now() }
