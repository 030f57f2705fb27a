package hub

import (
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// sharedSecrets is a backplane that also keeps a secret which all instances
// share, and a clock that goes with it.
type sharedSecrets interface {
	Secrets() [][]byte // the one in force first; empty until known
	Now() time.Time
}

// tokenKeys chooses what signs connection tokens.
func tokenKeys(opts Options) transport.KeySource {
	if opts.TokenKeys != nil {
		return opts.TokenKeys
	}
	if shared, ok := opts.Backplane.(sharedSecrets); ok {
		return backplaneKeys{shared}
	}
	return transport.RandomKeys()
}

// backplaneKeys makes signing keys of the backplane's secret.
type backplaneKeys struct{ sharedSecrets }

func (b backplaneKeys) Keys() []transport.Key {
	secrets := b.Secrets()
	keys := make([]transport.Key, 0, len(secrets))
	for _, s := range secrets {
		var k transport.Key
		if copy(k[:], s) == len(k) {
			keys = append(keys, k)
		}
	}
	return keys
}
