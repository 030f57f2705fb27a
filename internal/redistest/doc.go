// Package redistest starts a private redis-server for one test.
//
// Every server is a process of its own, on a Unix socket in a short temporary
// directory (or on a free loopback port with [TCP]), with persistence off, so
// tests never share one, never meet a fixed port and may kill, freeze and
// restart theirs. The server dies with the test: [Start] registers the
// clean-up.
//
// Without the program redis-server the test fails and names the Debian package
// that has it; it is never skipped.
//
// Methods report failures through testing.TB.Fatalf and are therefore called
// on the goroutine of the test, unless they say otherwise.
package redistest
