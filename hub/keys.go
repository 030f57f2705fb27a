package hub

import (
	"context"
	"fmt"
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

// tokenKeys chooses what signs connection tokens.
func tokenKeys(opts Options) (transport.KeySource, error) {
	if opts.TokenKeys != nil {
		return opts.TokenKeys, nil
	}
	shared, ok := opts.Backplane.(sharedKeys)
	if !ok {
		return transport.RandomKeys(), nil
	}
	secret, err := shared.SharedKey(context.Background(), tokenKeyName)
	if err != nil {
		return nil, fmt.Errorf("hub: shared key: %w", err)
	}
	return sharedTokenKeys{secret}, nil
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
