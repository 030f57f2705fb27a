// Package e2e holds the end-to-end tests: whole instances over real sockets and
// a real Redis, judged from outside.
//
// The tests use counts at which the kind of fault they look for shows, and run
// in about a minute. SWITCHBOARD_LONG=1 in the environment makes them use the
// full counts, which takes many minutes and needs 4,000 file descriptors.
package e2e
