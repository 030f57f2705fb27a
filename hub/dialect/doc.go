// Package dialect is what instances say to each other over a backplane: the
// names of channels and the envelopes that travel on them, byte for byte those
// of Microsoft.AspNetCore.SignalR.StackExchangeRedis, so that instances of
// this program and ASP.NET Core servers share groups, users and connections.
//
// # Channels
//
// A [DotNet] value builds and takes apart the seven kinds of channel names of
// one hub. Names are plain concatenations of the hub key (the full .NET name
// of the hub's type), a fixed word and a name that is taken literally: nothing
// is escaped, trimmed, folded or hashed. The channel prefix of an installation
// is not part of these names; the backplane adds and strips it.
//
//	<hub key>:all                        invocation       to every instance
//	<hub key>:internal:groups            group command    to every instance
//	<hub key>:internal:ack:<server>      ack              to the asking instance
//	<hub key>:internal:return:<server>   completion       to the asking instance
//	<hub key>:group:<name>               invocation       to instances with a member
//	<hub key>:user:<id>                  invocation       to instances with a connection
//	<hub key>:connection:<id>            invocation       to the owner
//
// # Envelopes
//
// Each of the four envelopes is one MessagePack array. Append functions write
// the shortest form of every value, as .NET does. Parse functions accept any
// width, ignore items after those they know and whatever follows the array,
// and return an [*Error] for everything else: they never panic and never
// allocate more than a small multiple of the bytes they were given, whatever
// lengths those declare.
//
// # Promises and refusals
//
// The package is pure: no goroutines, no I/O, no state, no logging. All
// functions and all values may be used by many goroutines at once, an
// [Invocation] being parsed into excepted. Order and delivery are the business
// of the backplane. Nothing in here looks into a frame: frames are complete
// records of a hub protocol and are passed on untouched.
package dialect
