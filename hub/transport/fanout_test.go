package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// fanout opens n connections of a kind whose clients take in whatever comes,
// and returns the server's sides.
func fanout(t testing.TB, kind Kind, n int) []Conn {
	t.Helper()
	serve, opened, _ := sinkOf(n)
	s := start(t, Options{}, serve)
	conns := make([]Conn, n)
	for i := range conns {
		client := s.dial(t)
		if err := client.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		r := s.restClient(t)
		request := "GET /hub?id=" + r.token + " HTTP/1.1\r\nHost: x\r\n"
		switch kind {
		case ServerSentEvents:
			request += "Accept: text/event-stream\r\n\r\n"
			if _, err := io.WriteString(client, request); err != nil {
				t.Fatal(err)
			}
			go io.Copy(io.Discard, client)
		default:
			r.begin(t)
			go pollOn(client, []byte(request+"\r\n"))
		}
		conns[i] = wait(t, opened)
	}
	return conns
}

func sinkOf(n int) (serve func(Conn), conns <-chan Conn, result <-chan error) {
	opened, done := make(chan Conn, n), make(chan error, n)
	return func(c Conn) {
		opened <- c
		for {
			if _, err := c.Receive(); err != nil {
				done <- err
				return
			}
		}
	}, opened, done
}

// pollOn polls until the connection breaks.
func pollOn(client net.Conn, request []byte) {
	r := bufio.NewReader(client)
	for {
		if _, err := client.Write(request); err != nil {
			return
		}
		length := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				break
			}
			if n, ok := contentLength(line); ok {
				length = n
			}
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
	}
}

func contentLength(line []byte) (n int, ok bool) {
	const name = "Content-Length: "
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return 0, false
	}
	for _, c := range line[len(name) : len(line)-2] {
		n = 10*n + int(c-'0')
	}
	return n, true
}

// TestFanoutCopiesNothing sends one large message to many receivers: what is
// allocated has nothing to do with its size.
func TestFanoutCopiesNothing(t *testing.T) {
	const receivers, size = 8, 1 << 20
	for _, kind := range []Kind{ServerSentEvents, LongPolling} {
		conns := fanout(t, kind, receivers)
		batch := []*Message{NewMessage(make([]byte, size), false)}
		send := func() {
			for _, c := range conns {
				if err := c.Send(batch, soon()); err != nil {
					t.Fatal(err)
				}
			}
		}
		send()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		send()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > size/2 {
			t.Errorf("%s: allocated %d bytes for %d receivers of %d", kind, got, receivers, size)
		}
	}
}

// TestEventsSendAllocates pins what an event costs.
func TestEventsSendAllocates(t *testing.T) {
	conn := fanout(t, ServerSentEvents, 1)[0]
	for _, n := range []int{1, 16, 300} {
		batch := make([]*Message, n)
		for i := range batch {
			batch[i] = NewMessage(make([]byte, 160), false)
		}
		deadline := soon()
		got := testing.AllocsPerRun(200, func() {
			if err := conn.Send(batch, deadline); err != nil {
				t.Fatal(err)
			}
		})
		// net/http boxes the length of each chunk that it prints: one for
		// every 2 KiB.
		if limit := float64(1+n*190/2048) + mostly(); got > limit {
			t.Errorf("%d messages: %v allocations, want %v", n, got, limit)
		}
	}
}

func BenchmarkFanout(b *testing.B) {
	for _, kind := range []Kind{ServerSentEvents, LongPolling} {
		for _, n := range []int{1, 100} {
			for _, size := range []int{160, 16 << 10} {
				b.Run(fmt.Sprintf("%s/receivers=%d/size=%d", kind, n, size), func(b *testing.B) {
					conns := fanout(b, kind, n)
					batch := []*Message{NewMessage(make([]byte, size), false)}
					errs := make(chan error, n)
					b.ReportAllocs()
					b.SetBytes(int64(n * size))
					for b.Loop() {
						for _, c := range conns {
							go func() { errs <- c.Send(batch, time.Now().Add(patience)) }()
						}
						for range conns {
							if err := <-errs; err != nil {
								b.Fatal(err)
							}
						}
					}
				})
			}
		}
	}
}

func BenchmarkPost(b *testing.B) {
	for _, size := range []int{160, 16 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			serve, _, _ := sinkOf(1)
			s := start(b, Options{}, serve)
			r := s.restClient(b)
			r.begin(b)
			poll := s.dial(b) // the open one, so that the connection lasts
			io.WriteString(poll, "GET /hub?id="+r.token+" HTTP/1.1\r\nHost: x\r\n\r\n")
			client := s.dial(b)
			if err := client.SetDeadline(time.Time{}); err != nil {
				b.Fatal(err)
			}
			request := append(fmt.Appendf(nil, "POST /hub?id=%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", r.token, size), make([]byte, size)...)
			in := bufio.NewReader(client)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := client.Write(request); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
			}
		})
	}
}
