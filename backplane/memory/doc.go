// Package memory is a backplane without Redis: instances in one process
// exchange messages through a [Broker]. Programs that need no Redis (a demo
// with two instances, one instance alone) and tests use it; it keeps the
// promises of package backplane, whose contract tests run over both.
//
// # Promises
//
// Order: the broker puts all messages in one order, and every instance
// delivers its share of them in that order. Publish returns when the message
// has its place.
//
// Delivery: exactly once to each instance that is subscribed and linked when
// the message gets its place and still subscribed when its turn comes.
//
// Blocking: deliver functions are called on the goroutine that runs
// [Backplane.Run], one after the other; they must not block. What waits for
// them is bounded to [QueueBytes] for each instance. When one of the receivers
// has no room Publish waits, for its context and at most [WaitLimit], then
// fails with [ErrUnavailable].
//
// Links: [Broker.SetLinked] and [Backplane.SetLinked] play Redis going away
// and coming back.
//
// Everything waits on Go channels and timers only, so it works in a
// testing/synctest bubble.
package memory
