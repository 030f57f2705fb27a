// Package forward passes a request of a SignalR connection from the instance
// where it arrived to the instance that owns the connection: polls, POSTs,
// DELETEs, event streams and WebSocket upgrades. It is what makes sticky
// sessions unnecessary. What the requests mean it does not know.
//
// A Forwarder does both halves: Forward sends a request on, Accept recognises
// one that another instance has sent.
//
// # Promises
//
// A request reaches the owner at most once. A poll takes data away and a POST
// adds some, so nothing is sent again once a byte of it may have arrived, not
// even when the owner has just closed an idle connection: the error then says
// that the owner is lost, and the client has to start anew. Only a request of
// which certainly nothing was written is tried on another connection.
//
// Whoever waits for the answer of one request before sending the next finds
// them in that order at the owner. Requests that are under way together have
// no order, as on any HTTP server.
//
// The owner sees the request as the first instance did: method, path and query
// as the client wrote them, Host, every end-to-end header, and after Accept
// also the client's address and scheme. Answers are passed on as they come:
// the head before any byte of the body, and each piece flushed.
//
// When one side ends, the other does: a client that leaves cancels its request
// at the owner, and a lost owner is an error as long as nothing was answered,
// and a broken answer after that. The bytes of a WebSocket go both ways in
// order, those right behind the handshake included, and each direction may end
// on its own.
//
// Forward blocks until the request is over, for a stream until its end. It
// waits for nothing else, and leaves no goroutine behind, except that a dial
// goes on to its end when the client has left.
//
// # Limits
//
//   - 2 s to connect, TLS included; 30 s for the answer to a WebSocket upgrade.
//     Polls and streams may take as long as they like.
//   - An owner that stopped without a word is noticed within 60 s on Linux, by
//     keep-alive probes and TCP_USER_TIMEOUT. Elsewhere the system's own limit
//     for lost data applies.
//   - A client that takes nothing for 30 s loses its answer.
//   - A side of a WebSocket that goes on for 30 s after the other has ended is cut.
//   - A request under way has a connection of its own; how many there may be is
//     for whoever lets clients in to say.
//   - 8,192 idle connections per owner, 32,768 together, each for 3 s, which must
//     be less than what the owner's http.Server allows (IdleTimeout)
//   - 1 MiB for the head of an answer, 1,024 bytes for a client's address.
//   - A signature is good for 30 s either way on the clock of the keys, and
//     for one request. 1,048,576 of them are remembered; should they not
//     suffice, requests are refused and never accepted unseen.
//
// # Refusals
//
// It forwards no CONNECT, no absolute request lines, no upgrades but
// WebSockets, no trailers, no informational answers, and nothing that was
// forwarded already. Client certificates stay at the first instance. What is
// signed is the request's line, Host, origin and age, not its headers or
// body: the network between instances has to be trusted with those, or TLS be
// used.
//
// # The signature
//
// It travels as one header, X-Switchboard-Forward. Its value is base64url
// without padding of
//
//	version   1 byte, 1
//	time      8 bytes, milliseconds since 1970 on the clock of the keys
//	nonce     16 random bytes
//	scheme    1 byte, 0 http, 1 https: what the client used
//	address   2 bytes of length, the client's address
//	signature 32 bytes
//
// in big-endian order. The signature is HMAC-SHA256 over a label of its own,
// all of the above, and method, request URI and Host, each behind 4 bytes of
// length.
package forward
