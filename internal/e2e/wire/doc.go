// Package wire holds the end-to-end tests that look at one socket byte by byte:
// whatever a client may send, and exactly what it gets for it.
package wire
