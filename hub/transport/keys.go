package transport

import (
	"crypto/rand"
	"time"
)

// A Key signs connection tokens: 32 bytes that nobody can guess.
type Key [32]byte

// A KeySource holds the signing keys of connection tokens and the clock by
// which those expire. All instances that share keys must share the clock, too:
// it is the source's, so that no instance's own clock decides.
//
// Its methods are called by many goroutines at once and must not block.
type KeySource interface {
	// Keys returns the keys in force. The first one signs, all of them are
	// accepted: usually the current and the previous one. The slice must not
	// be changed afterwards. While it is empty no token is made or accepted.
	Keys() []Key

	// Now is the time on the clock that goes with the keys.
	Now() time.Time
}

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails
	return k
}

// RandomKeys returns the keys of an instance that is alone: one random key,
// and the instance's own clock.
func RandomKeys() KeySource { return loneKeys{NewKey()} }

type loneKeys [1]Key

func (k loneKeys) Keys() []Key { return k[:] }

func (loneKeys) Now() time.Time { return time.Now() }
