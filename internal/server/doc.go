// Package server is one Switchboard instance made from a Config: hubs with the
// built-in methods and their permissions, the page that shows them, health and
// readiness, and the drain. The serve and demo commands and tests use it.
//
// A Server owns its listener, its HTTP server, its hubs and, unless it was
// given one, its backplane; Run returns when all of them have ended.
//
// Without authentication everybody who reaches the listener may do everything.
// Such a server therefore listens on loopback only, unless the configuration
// says Insecure, and in either case answers only requests whose Host is a
// loopback name, so that a foreign page cannot reach it by DNS rebinding.
package server
