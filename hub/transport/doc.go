// Package transport carries the bytes of SignalR connections over HTTP: it
// answers negotiate, issues and checks connection tokens, decides which pages
// may connect, and opens WebSockets. It knows nothing of hub messages.
package transport
