// Package transport carries the bytes of SignalR connections over HTTP: it
// answers negotiate, issues and checks connection tokens, decides which pages
// may connect, and opens WebSockets, event streams and long polling. What the
// bytes mean it does not know.
//
// An Endpoint is one hub's side of HTTP, a Conn one connection, and a Message
// what is sent on connections, encoded once for all of them, whatever their
// transport. An Endpoint serves as well without a hub, as the example shows.
//
// # Promises
//
// Bytes arrive in the order in which they were sent, each once, or the
// connection ends: Receive returns the client's stream in bounded pieces, and
// Send writes messages in the order of its batches. A message is never cut: what
// goes out in one write is whole WebSocket frames, each with whole messages, a
// poll is answered with one whole batch, and each message is one event. When
// Send returns the operating system has the bytes; whether the client has them
// is not known. What a client has sent in one POST of up to 64 KiB is received
// whole or not at all; should it abort a larger one, the connection ends.
//
// Receive blocks until something comes, Send until there is room or its deadline
// has passed, on long polling until a poll has come and taken the batch. A POST
// is answered when its bytes wait for Receive, of which at most 64 KiB do: more
// wait in their requests. Nothing waits for anything else: pings are answered
// while a message is being written, and CloseNow frees Receive and Send. An
// idle connection owns one goroutine, its reader, and no buffer; an event stream
// and a poll have those of the HTTP server besides. A response that is an event
// stream ends when its serve has returned.
//
// Every connection that was let in is counted until its serve and its requests
// have returned; Wait waits for that.
//
// A poll that its client leaves while it is being answered may take its messages
// with it, as in SignalR: whether the client has them is not known.
//
// # Tokens
//
// Negotiate keeps nothing. The connection token says all there is to know, is
// signed, expires, and opens one connection, on any instance that has the same
// keys. What is shown to other clients, the connection id, opens nothing. A
// client that negotiates version 0 has but one id: its whole token, which on a
// WebSocket is worth nothing once it was used, and which others are not shown
// where it is worth something. A connection outlives the keys that signed its
// token, as far as its requests reach its owner directly: other instances pass
// on nothing that they cannot check.
//
// No client need stay with one instance. A plain WebSocket is served where it
// arrives. Polls, POSTs, DELETEs, event streams, and WebSockets that may be
// replaced are passed on to the endpoint that negotiated, the token's owner, at
// its Options.Advertise; once, and never twice. Without the owner a connection
// is over, and the client learns it by a 404. The instance where a request
// arrives checks its origin; both ask Authorize.
//
// # Lost and replaced sockets
//
// Where client and endpoint have agreed on stateful reconnects, the Conn is a
// ResumableConn: a socket that is lost without a close frame may be replaced by
// another one of the same token within Options.DisconnectTimeout. What was lost
// with it is the hub's to send again.
//
// # The end
//
// A client of long polling learns of a polite end by a 204, once, and of any
// other end but its own absence likewise. After that its token is unknown: 404.
// An open poll that a newer one replaces gets 204, too.
//
// # Refusals
//
// Requests are refused before the upgrade, with the statuses and texts of
// SignalR's server, so that clients fall back as they do there. Unlike that
// server it lets in pages of the same origin only, unless told otherwise. It
// never accepts compression, sub-protocols, unmasked frames, WebSockets over
// HTTP/2 or a version other than 13, and it puts no limit on a WebSocket
// message, which is part of a stream like any other: the limit is the codec's,
// for each record. Event streams carry no binary messages, and control messages
// are for WebSockets only.
package transport
