package transport

import (
	"testing"
	"time"
)

func TestEcho(t *testing.T) {
	s := startEcho(t, Options{})
	c := s.open(t, "")
	c.writeFrame(t, 0x81, []byte("hello\x1e"))
	if got := c.readFrame(t); got.op != opText || string(got.payload) != "hello\x1e" {
		t.Fatalf("got %x %q", got.op, got.payload)
	}
	c.writeFrame(t, 0x88, nil)
	if got := c.readFrame(t); got.op != opClose || string(got.payload) != "\x03\xe8" {
		t.Fatalf("got %x %x, want close 1000", got.op, got.payload)
	}
	c.wantEOF(t, time.Second)
}
