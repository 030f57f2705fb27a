// Package e2e holds the end-to-end tests: whole instances over real sockets and
// a real Redis, judged from outside.
package e2e
