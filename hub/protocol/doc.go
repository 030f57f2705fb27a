// Package protocol reads and writes the records of SignalR's hub protocols:
// the handshake, and the nine types of hub messages in JSON and MessagePack.
//
// It is pure: it starts no goroutine, keeps no connection, does not log and
// never blocks. A Protocol cuts records out of a byte stream (Cut), decodes
// them (Parse) and appends them to buffers (the Append methods). Arguments,
// items and results stay raw until somebody who knows their type calls Decode.
// Records appended to one buffer are read in that order; nothing else here has
// an order.
//
// Everything read is checked as strictly as the official server checks it:
// what it refuses is refused with the same detail text, in an *Error. Lengths
// are checked before anything is allocated, records against the caller's
// limit, and nesting beyond 64 levels is refused. Unknown message types,
// unknown members and extra elements are ignored. Nothing that is read makes
// this package panic.
//
// What is written is what the official server writes: absent fields are left
// out, headers are never sent, and JSON has no escapes but the necessary ones.
//
// It does not judge what messages mean: whether a method exists, an id is
// known or a version of the protocol is supported is the caller's to say.
package protocol
