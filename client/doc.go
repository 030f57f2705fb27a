// Package client is a SignalR client: it calls the methods of a hub and is
// called by it, over WebSockets, Server-Sent Events or long polling, with
// either hub protocol, negotiated or not.
//
// [New] makes a [Client] from [Options]; [Client.On] and its relatives register
// what runs when the hub calls; [Client.Start] connects; [Invoke],
// [Client.Call] and [Client.Send] call the hub; [Stream] ranges over what a
// method streams and [Upload] makes an argument that is a stream; [OnResult]
// answers what the hub asks; [Client.Stop] ends everything and waits for it. A
// client may be started again after it has ended.
//
// # Order, and who waits for whom
//
// All handlers and all callbacks of a client (OnReconnecting, OnReconnected,
// OnClosed) run one after another, on one goroutine of the client: handlers in
// the order in which the hub's messages arrived, the callbacks in between
// where they belong. A slow handler therefore delays those behind it, but
// neither answers to calls nor pings, until the queue of messages for handlers
// is full ([Options.HandlerQueue]): then the client stops reading, and answers
// behind that point wait too. So a handler may call the hub and wait for the
// answer, best with a deadline; but it must not wait for Stop. In the same way
// the client stops reading, for at most 10 s, while the buffer of a stream is
// full ([Options.StreamBufferCapacity]).
//
// The items of a stream keep their order in both directions; items of
// different streams and other records do not wait for each other.
//
// Records that one goroutine sends go out in the order of its calls. A call
// that has to wait for room in the outgoing buffer waits with its context.
//
// # Transports
//
// Options.Transports says which are tried, in which order. Nothing above
// differs between them, except that long polling knows neither pings nor a
// server timeout. Where there is no WebSocket, records are posted: one POST at
// a time, which takes all records that have come together meanwhile, so order
// is kept.
//
// # Delivery
//
// At most once. Send returns when its record has a place in the outgoing
// buffer; if the connection breaks then, the record is lost without a word.
// Calls that were waiting for an answer fail with [ErrConnectionLost], whether
// or not the hub has seen them; nothing is ever repeated. Messages that the
// hub sent while the client was away are lost, and so is what the hub knew of
// the connection: after a reconnect the connection has another id and is in no
// group. Join again in OnReconnected, which runs before any handler of the new
// connection.
//
// With [Options.StatefulReconnect], and a server that agrees, records survive
// the loss of a WebSocket, in both directions, each once and in order: the
// client opens another one for the same connection, at once and after 1 and
// 2 s, and calls, streams, groups and the connection id stay. Callbacks do not
// run. Only when the server has forgotten the connection, or cannot be
// reached, it is lost as above. The end of a connection that somebody meant (a
// Close record, a close frame, Stop) is never resumed.
//
// # What it refuses
//
// Records above [Options.MaximumReceiveMessageSize] and malformed ones end the
// connection. The client trusts its server otherwise: error texts are passed
// on as they are.
package client
