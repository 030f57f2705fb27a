package client

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A Retry describes a reconnect attempt that is being considered.
type Retry struct {
	// Attempt counts from 0 since the connection was lost.
	Attempt int

	// Elapsed is the time since the connection was lost.
	Elapsed time.Duration

	// Err is why the connection was lost, or why the last attempt failed. It
	// is nil if the server closed the WebSocket normally.
	Err error
}

// A ReconnectPolicy says how long to wait before an attempt, or false to give
// up. It is called by one goroutine per client.
type ReconnectPolicy func(Retry) (delay time.Duration, ok bool)

// RetryDelays attempts once after each of the delays and then gives up.
func RetryDelays(delays ...time.Duration) ReconnectPolicy {
	delays = slices.Clone(delays)
	return func(r Retry) (time.Duration, bool) {
		if r.Attempt >= len(delays) {
			return 0, false
		}
		return delays[r.Attempt], true
	}
}

// DefaultRetryDelays attempts after 0, 2, 10 and 30 s, as the official clients
// do unless told otherwise.
func DefaultRetryDelays() ReconnectPolicy {
	return RetryDelays(0, 2*time.Second, 10*time.Second, 30*time.Second)
}

// RetryForever never gives up: each delay is random, between nothing and a
// bound that starts at first and doubles with each attempt up to most (full
// jitter, so that many clients do not come back at once). Values that are not
// positive mean 1 s and 30 s.
func RetryForever(first, most time.Duration) ReconnectPolicy {
	if first <= 0 {
		first = time.Second
	}
	if most <= 0 {
		most = 30 * time.Second
	}
	return func(r Retry) (time.Duration, bool) {
		bound := first
		for range r.Attempt {
			if bound >= most/2 {
				bound = most
				break
			}
			bound *= 2
		}
		bound = min(bound, most)
		return time.Duration(rand.Int64N(int64(bound) + 1)), true
	}
}
