// Package hub is a SignalR server as a library: a Hub serves connections that
// official SignalR clients make, runs the methods they call, and sends messages
// to connections, groups and users, on this instance and, through a Backplane,
// on all others.
//
// # What it promises
//
// Order. Messages that one goroutine sends one after another to the same
// recipients arrive in that order. All members of a group see the group's
// messages in one order: that of its channel on the backplane, or without a
// backplane that of this hub. Between different recipients (a group and a
// single connection, say) there is no order, except that a message sent to
// the caller itself is on its way before the method's completion.
//
// Calls of one connection start in the order sent, one at a time unless
// MaximumParallelInvocationsPerClient says otherwise, and none before
// OnConnected has ended. Pings and cancellations do not queue behind them.
//
// Join is a fence. When AddToGroup has returned, every later send to the group
// from any instance reaches the connection; when RemoveFromGroup has returned,
// none does.
//
// At most once. A message is never delivered twice; one to several groups is
// one message per group.
//
// # Who waits for whom
//
// Nobody waits for a slow client. Every connection has a bounded queue, and
// one whose queue is full is ended with ErrSlowConsumer; only answers to a
// client's own calls wait for room. Send waits for the backplane's publish
// queue at most. A client that calls faster than its methods run is no longer
// read once InvocationQueue calls wait.
//
// # Who owns what
//
// The goroutine that calls ServeConn is the connection's reader; it runs no
// user code. A writer exists while something is queued for the client, an
// invoker while calls are queued, and the teardown, which runs OnDisconnected,
// from the connection's end on. ServeConn returns when all of them have ended.
// Run owns the keep-alive timer, one for all connections, and what other
// instances asked this one to do.
//
// # What it refuses
//
// Names of groups, users and targets that are empty, longer than 1,024 bytes,
// not UTF-8 or hold control characters; records larger than
// MaximumReceiveMessageSize; more than MaximumGroupsPerConnection groups for
// one connection. It keeps no messages for clients that are away.
package hub
