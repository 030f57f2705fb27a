// Package backplane carries bytes between instances on named Redis channels.
// It knows nothing of what they mean: groups, users and acknowledgements are
// the business of the package that publishes and subscribes. It imports nothing
// of this project; package hub declares the interface it needs in standard
// types, and [Redis] fits it.
//
// # What it promises
//
// Order. All messages of a process take their place in one publish queue and
// reach Redis in that order. Redis gives the messages of a channel to all
// subscribers in one order, and the receive loop delivers them in the order
// they came. So messages one goroutine publishes one after the other arrive in
// that order, and everybody subscribed to a channel sees one order. There is
// no order between channels of different publishers.
//
// Fence. When [Redis.Subscribe] has returned nil, Redis has confirmed the
// subscription: every message published later, by whatever instance, is
// delivered. When [Redis.Unsubscribe] has returned, no further delivery
// begins.
//
// Delivery. At most once. A message that was written while the link broke is
// never written again; it is counted as lost ([ErrLost], [Stats].Lost). What
// other instances published while this one had no link is not received, which
// [Link].Generation tells. A message that was queued and never written is sent
// by the next link if that comes within a second, else it is handed back
// through [Options].Unsent.
//
// Blocking. Publish waits only if the queue is full, Subscribe until Redis has
// confirmed; every wait ends with its context and after 5 s. Deliver functions
// run on the goroutine that receives and must not block: they hold up all
// channels, and nothing else buffers.
//
// # The link
//
// [Redis.Run] owns every goroutine and holds one link: a connection that
// receives, one that publishes and up to four for commands, however many
// channels there are. A link is replaced, not repaired. An interruption of less
// than a second (2.5 s if Redis answers and has yet to confirm the channels) is
// bridged: messages wait in the queue, callers of Subscribe wait. After that
// Redis is declared away: what waits is ended, Publish and Subscribe fail at
// once with [ErrUnavailable], and listeners of [Redis.OnLink] know.
// Subscriptions stay counted. Attempts go on, at most about a second apart; when
// Redis is back all channels are subscribed in batches, and only when the last
// is confirmed is the link up. A connection on which nothing comes, not even the
// answer to a PING, is given up after 2.5 s.
//
// # Keys and channels
//
// Channels are Options.ChannelPrefix followed by the name, without a separator;
// messages on other channels are discarded.
//
//	Key               Type    TTL     Written by        Swept by
//	<KeyPrefix><name> string  10 min  every instance    its TTL
//	<KeyPrefix>claim:<name> string  its life  who came first  its TTL
//
// where name is the argument of [Redis.SharedKey] ("token-key"): 32 random
// bytes, set if there are none, renewed every 10 s while an instance runs; and
// that of [Redis.Claim], whose value is the owner.
//
// # Permissions
//
// With an ACL the user needs the channels &<ChannelPrefix>*, the keys
// ~<KeyPrefix>*, and the commands HELLO, AUTH, PING, SELECT, CLIENT|SETNAME,
// SUBSCRIBE, UNSUBSCRIBE, PUBLISH, PUBSUB|NUMSUB, SET, GET, PEXPIRE, TIME, EVAL and
// EVALSHA.
// A channel the user may not have fails with [ErrAuth]; the others go on.
//
// # What it refuses
//
// It does not retry, store or replay messages, does not use patterns
// (PSUBSCRIBE), which would count as receivers, and does not speak Sentinel or
// Cluster.
package backplane
