// Package transport carries the bytes of SignalR connections over HTTP: it
// answers negotiate, issues and checks connection tokens, decides which pages
// may connect, and opens WebSockets. What the bytes mean it does not know.
//
// An Endpoint is one hub's side of HTTP, a Conn one connection, and a Message
// what is sent on connections, encoded once for all of them. Event streams and
// long polling are not there yet; they will be further Conns.
//
// # Promises
//
// Bytes arrive in the order in which they were sent, each once, or the
// connection ends: Receive returns the client's stream in bounded pieces, and
// Send writes messages in the order of its batches. A message is never cut: what
// goes out in one write is whole WebSocket frames, each with whole messages.
// When Send returns the operating system has the bytes; whether the client has
// them is not known.
//
// Receive blocks until something comes, Send until there is room or its deadline
// has passed. Nothing waits for anything else: pings are answered while a
// message is being written, and CloseNow frees both. An idle connection owns one
// goroutine, its reader, and no buffer.
//
// Every connection that was let in is counted until its serve has returned; Wait
// waits for that.
//
// # Tokens
//
// Negotiate keeps nothing. The connection token says all there is to know, is
// signed, expires, and opens one connection, on any instance that has the same
// keys. What is shown to other clients, the connection id, opens nothing. A
// client that negotiates version 0 has but one id: its whole token, which is
// worth nothing once it was used.
//
// # Refusals
//
// Requests are refused before the upgrade, with the statuses and texts of
// SignalR's server, so that clients fall back as they do there. Unlike that
// server it lets in pages of the same origin only, unless told otherwise. It
// never accepts compression, sub-protocols, unmasked frames, WebSockets over
// HTTP/2 or a version other than 13, and it puts no limit on a WebSocket
// message, which is part of a stream like any other: the limit is the codec's,
// for each record.
package transport
