// Package vendor holds the browser libraries that the dashboard loads: the
// official SignalR client and its MessagePack protocol, embedded as published,
// so that nothing is fetched at run time and building needs no Node.js.
//
//	signalr.min.js                   @microsoft/signalr 10.0.11, MIT
//	signalr-protocol-msgpack.min.js  @microsoft/signalr-protocol-msgpack 10.0.11, MIT,
//	                                 with @msgpack/msgpack 2.8.0, ISC, inside
//
// The files come from npm through update.mjs, which copies them from
// test/js/node_modules and writes SHA256SUMS. A test compares the embedded
// bytes with that list; the Node tests compare them with the packages.
//
// The package starts nothing, holds no state and imports nothing of ours.
//
// Its files lie flat: Go leaves subdirectories of a directory named vendor out
// of module archives, and `go install` of this module would miss them.
package vendor
