package transport

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// serving opens one connection and returns both ends of it. The server's end
// lasts until the test is over.
func serving(t testing.TB, secure bool) (Conn, *rawConn) {
	t.Helper()
	conns := make(chan Conn, 1)
	done := make(chan struct{})
	s := startWith(t, Options{}, func(c Conn) {
		conns <- c
		<-done
	}, secure)
	t.Cleanup(func() { close(done) })
	c := s.open(t, "")
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return wait(t, conns), c
}

// mostly is how many allocations a run may have on average because a pool was
// emptied by the collector, or by the race detector, which drops every fourth
// thing that is put into one: a parser among them.
func mostly() float64 {
	if raceEnabled {
		return 20
	}
	return 0
}

func TestSendAllocates(t *testing.T) {
	conn, c := serving(t, false)
	go io.Copy(io.Discard, c)
	for _, n := range []int{1, 16, 300} {
		batch := make([]*Message, n)
		for i := range batch {
			batch[i] = NewMessage(make([]byte, 160), false)
		}
		batch[n/2] = NewMessage(make([]byte, 160*n), false)
		deadline := time.Now().Add(patience)
		got := testing.AllocsPerRun(200, func() {
			if err := conn.Send(batch, deadline); err != nil {
				t.Fatal(err)
			}
		})
		if got > mostly() {
			t.Errorf("%d messages: %v allocations, want %v", n, got, mostly())
		}
	}
}

func TestReceiveAllocates(t *testing.T) {
	conn, c := serving(t, false)
	frame := clientFrame(0x81, make([]byte, 160))
	got := testing.AllocsPerRun(200, func() {
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 160; {
			piece, err := conn.Receive()
			if err != nil {
				t.Fatal(err)
			}
			n += len(piece)
		}
	})
	if got > mostly() {
		t.Errorf("%v allocations, want %v", got, mostly())
	}
}

func BenchmarkSend(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, n := range []int{1, 16, 1000} {
			b.Run(fmt.Sprintf("messages=%d/TLS=%v", n, secure), func(b *testing.B) {
				conn, c := serving(b, secure)
				go io.Copy(io.Discard, c)
				batch := make([]*Message, n)
				for i := range batch {
					batch[i] = NewMessage(make([]byte, 160), false)
				}
				b.ReportAllocs()
				b.SetBytes(int64(n * batch[0].Size()))
				for b.Loop() {
					if err := conn.Send(batch, time.Now().Add(patience)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkReceive(b *testing.B) {
	for _, secure := range []bool{false, true} {
		for _, size := range []int{160, 16 << 10} {
			b.Run(fmt.Sprintf("size=%d/TLS=%v", size, secure), func(b *testing.B) {
				conn, c := serving(b, secure)
				frames := bytes.Repeat(clientFrame(0x81, make([]byte, size)), 1+(256<<10)/size)
				go func() {
					for {
						if _, err := c.Write(frames); err != nil {
							return
						}
					}
				}()
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					for n := 0; n < size; {
						piece, err := conn.Receive()
						if err != nil {
							b.Fatal(err)
						}
						n += len(piece)
					}
				}
			})
		}
	}
}

// BenchmarkRoundTrip sends one message back and forth: both ends wait for each.
func BenchmarkRoundTrip(b *testing.B) {
	s := startEcho(b, Options{})
	c := s.open(b, "")
	if err := c.SetDeadline(time.Time{}); err != nil {
		b.Fatal(err)
	}
	frame := clientFrame(0x81, make([]byte, 160))
	answer := make([]byte, 164)
	b.ReportAllocs()
	for b.Loop() {
		c.write(b, frame)
		if _, err := io.ReadFull(c.r, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAccept opens and closes connections; the clients' part is in it.
func BenchmarkAccept(b *testing.B) {
	s := startEcho(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		s.open(b, "").Close()
	}
	if err := s.endpoint.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkNegotiate(b *testing.B) {
	e, err := New(Options{Open: noOpen, Instance: "node-1-0123456789abcdef0123456789abcdef", Advertise: "10.1.2.3:8080"})
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/hub/negotiate?negotiateVersion=1", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.ServeHTTP(discard{}, r)
	}
}

func BenchmarkParseToken(b *testing.B) {
	keys := []Key{NewKey(), NewKey()}
	t := sample(&keys[0])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseToken(t.text, keys); err != nil {
			b.Fatal(err)
		}
	}
}
