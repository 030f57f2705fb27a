// Package hubtest lets programs test their hubs without a network: connections
// in memory, which work inside testing/synctest, and a client that speaks the
// hub protocol over them.
//
// The connections are real implementations of transport.Conn made of channels:
// a client that does not read blocks the hub's writer, and every end is told.
// For several hubs that share groups and users use the in-memory backplane of
// package backplane/memory.
package hubtest
