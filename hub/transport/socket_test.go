package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// ended is what a connection's Receive has returned in the end, after bytes.
type ended struct {
	data []byte
	err  error
}

// collect returns a serve that reads to the end, and where it reports it.
func collect() (serve func(Conn), result <-chan ended) {
	c := make(chan ended, 1)
	return func(conn Conn) {
		var all ended
		for {
			piece, err := conn.Receive()
			if err != nil {
				all.err = err
				c <- all
				return
			}
			all.data = append(all.data, piece...)
		}
	}, c
}

func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestReceive(t *testing.T) {
	record := []byte(strings.Repeat("0123456789", 30)) // 300 bytes
	for _, secure := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			frames func() []byte
			want   []byte
		}{
			{"it reads text", func() []byte { return clientFrame(0x81, record) }, record},
			{"it reads binary", func() []byte { return clientFrame(0x82, record) }, record},
			{"it reads an empty message", func() []byte { return append(clientFrame(0x81, nil), clientFrame(0x81, record)...) }, record},
			{"it joins 300 messages of a byte", func() []byte { return split(record, 1, true) }, record},
			{"it joins fragments of a byte", func() []byte { return split(record, 1, false) }, record},
			{"it joins 50 fragments", func() []byte { return split(record, 6, false) }, record},
			{"it joins empty fragments", func() []byte {
				b := clientFrame(0x01, nil)
				b = append(b, clientFrame(0x00, record)...)
				return append(b, clientFrame(0x80, nil)...)
			}, record},
			{"it reads a large message", func() []byte { return clientFrame(0x82, bytes.Repeat(record, 1000)) }, bytes.Repeat(record, 1000)},
			{"it reads control frames between fragments", func() []byte {
				b := clientFrame(0x01, record[:100])
				b = append(b, clientFrame(0x8a, []byte("pong"))...)
				return append(b, clientFrame(0x80, record[100:])...)
			}, record},
		} {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure), func(t *testing.T) {
				serve, result := collect()
				s := startWith(t, Options{}, serve, secure)
				c := s.open(t, "")
				c.write(t, tt.frames())
				c.writeFrame(t, 0x88, []byte("\x03\xe9bye"))
				c.wantClose(t, StatusGoingAway)
				got := wait(t, result)
				if !bytes.Equal(got.data, tt.want) || got.err != io.EOF {
					t.Errorf("got %d bytes and %v, want %d and EOF", len(got.data), got.err, len(tt.want))
				}
			})
		}
	}
}

// split cuts b into frames of n bytes: messages, or the fragments of one.
func split(b []byte, n int, messages bool) []byte {
	var out []byte
	first := byte(0x01)
	if messages {
		first = 0x81
	}
	for len(b) > n {
		out = append(out, clientFrame(first, b[:n])...)
		b = b[n:]
		if !messages {
			first = 0x00
		}
	}
	return append(out, clientFrame(first|0x80, b)...)
}

// TestReceiveByteByByte has a client whose every byte is a packet.
func TestReceiveByteByByte(t *testing.T) {
	serve, result := collect()
	s := start(t, Options{}, serve)
	c := s.open(t, "")
	for _, b := range append(clientFrame(0x81, []byte("hello")), clientFrame(0x88, nil)...) {
		c.write(t, []byte{b})
	}
	c.wantClose(t, StatusNormal)
	if got := wait(t, result); string(got.data) != "hello" || got.err != io.EOF {
		t.Errorf("got %q, %v", got.data, got.err)
	}
}

func TestPiecesArriveBeforeTheMessageEnds(t *testing.T) {
	s := startEcho(t, Options{})
	c := s.open(t, "")
	c.writeFrame(t, 0x01, []byte("one"))
	if got := c.readFrame(t); string(got.payload) != "one" {
		t.Fatalf("got %q", got.payload)
	}
	c.writeFrame(t, 0x80, []byte("two"))
	if got := c.readFrame(t); string(got.payload) != "two" {
		t.Fatalf("got %q", got.payload)
	}
}

// TestCutMessage has clients leave in the middle of a message, which must be
// nobody else's trouble.
func TestCutMessage(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startWith(t, Options{}, echo, secure)
		for range 50 {
			rude := s.open(t, "")
			rude.writeFrame(t, 0x01, []byte("half"))
			rude.readFrame(t)
			rude.Close()
			if err := s.endpoint.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			c := s.open(t, "")
			c.writeFrame(t, 0x81, []byte("hello"))
			if got := c.readFrame(t); string(got.payload) != "hello" {
				t.Fatalf("another connection got opcode %x, %q", got.op, got.payload)
			}
			c.Close()
			if err := s.endpoint.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEndlessFragments(t *testing.T) {
	const fragments, size = 100_000, 16
	received, pieces := 0, 0
	done := make(chan error, 1)
	s := start(t, Options{}, func(c Conn) {
		for {
			piece, err := c.Receive()
			if err != nil {
				done <- err
				return
			}
			received += len(piece)
			pieces = max(pieces, len(piece))
		}
	})
	c := s.open(t, "")
	payload := bytes.Repeat([]byte{'x'}, size)
	one := clientFrame(0x00, payload)
	c.writeFrame(t, 0x01, payload)
	allocs := testing.AllocsPerRun(1, func() {
		for range fragments / 100 / 2 {
			c.write(t, bytes.Repeat(one, 100))
		}
	})
	c.writeFrame(t, 0x89, []byte("?"))
	if got := c.readFrame(t); got.op != opPing+1 || string(got.payload) != "?" {
		t.Errorf("got opcode %x %q in the middle of a message, want a pong", got.op, got.payload)
	}
	if allocs > fragments/100 { // those of this test, in 1,000 steps
		t.Errorf("%v allocations for %d fragments", allocs, fragments/2)
	}
	c.Close()
	if err := wait(t, done); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want an unexpected end", err)
	}
	if want := (fragments + 1) * size; received != want || pieces > pieceSize {
		t.Errorf("got %d bytes in pieces of at most %d, want %d and %d", received, pieces, want, pieceSize)
	}
}

func TestAnnouncedLengthAllocatesNothing(t *testing.T) {
	serve, result := collect()
	s := start(t, Options{}, serve)
	c := s.open(t, "")
	c.write(t, []byte{0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 'a' ^ 1, 'b' ^ 2})
	c.Close()
	if got := wait(t, result); len(got.data) > 0 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d bytes and %v", len(got.data), got.err)
	}
}

func TestViolations(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 126)
	for _, secure := range []bool{false, true} {
		for _, tt := range []struct {
			name  string
			bytes []byte
		}{
			{"it refuses a control frame of 126 bytes", clientFrame(0x89, long)},
			{"it refuses a close frame of 126 bytes", clientFrame(0x88, long)},
			{"it refuses a fragmented ping", clientFrame(0x09, nil)},
			{"it refuses a fragmented close", clientFrame(0x08, nil)},
			{"it refuses an unmasked frame", []byte{0x81, 1, 'x'}},
			{"it refuses an unmasked ping", []byte{0x89, 0}},
			{"it refuses a reserved bit", clientFrame(0xc1, []byte("x"))},
			{"it refuses the other reserved bits", clientFrame(0xb1, []byte("x"))},
			{"it refuses an unknown opcode", clientFrame(0x83, []byte("x"))},
			{"it refuses an unknown control opcode", clientFrame(0x8b, []byte("x"))},
			{"it refuses a continuation of nothing", clientFrame(0x80, []byte("x"))},
			{"it refuses a message inside a message", append(clientFrame(0x01, []byte("x")), clientFrame(0x81, []byte("y"))...)},
			{"it refuses a close of one byte", clientFrame(0x88, []byte("x"))},
			{"it refuses a close with a reserved status", clientFrame(0x88, []byte{0x03, 0xed})},
			{"it refuses a length with its highest bit set", []byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
			{"it refuses noise", []byte("GET / HTTP/1.1\r\n\r\n")},
		} {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure), func(t *testing.T) {
				serve, result := collect()
				s := startWith(t, Options{}, serve, secure)
				c := s.open(t, "")
				// What follows means nothing to anybody, and must not cost the
				// client the reason by resetting the connection.
				c.write(t, append(tt.bytes, make([]byte, 64<<10)...))
				c.wantClose(t, statusProtocolError)
				if _, err := c.r.ReadByte(); err != io.EOF {
					t.Errorf("got %v behind the close frame, want the end", err)
				}
				c.Close()
				if got := wait(t, result); got.err == nil || errors.Is(got.err, io.EOF) || isTimeout(got.err) {
					t.Errorf("Receive returned %v", got.err)
				}
			})
		}
	}
}

// TestViolationsEndInTime has a client that breaks the rules and goes on.
func TestViolationsEndInTime(t *testing.T) {
	serve, result := collect()
	s := start(t, Options{WebSocketCloseTimeout: 50 * time.Millisecond}, serve)
	c := s.open(t, "")
	c.write(t, []byte{0x81, 1, 'x'})
	c.wantClose(t, statusProtocolError)
	wait(t, result)
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPings(t *testing.T) {
	s := startEcho(t, Options{})
	c := s.open(t, "")
	for _, payload := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte{'x'}, 125)} {
		c.writeFrame(t, 0x89, payload)
		if got := c.readFrame(t); got.op != opPing+1 || !bytes.Equal(got.payload, payload) {
			t.Errorf("got opcode %x, payload %q, want the pong to %q", got.op, got.payload, payload)
		}
	}
	c.writeFrame(t, 0x8a, []byte("unasked"))
	c.writeFrame(t, 0x81, []byte("x"))
	if got := c.readFrame(t); string(got.payload) != "x" {
		t.Errorf("got %q after a pong", got.payload)
	}
}

func TestProbeIsAnswered(t *testing.T) {
	received := make(chan time.Duration, 2)
	s := start(t, Options{}, func(c Conn) {
		if _, err := c.Receive(); err != nil {
			t.Error(err)
		}
		received <- c.LastReceived()
		if err := c.Send([]*Message{NewProbe()}, time.Now().Add(patience)); err != nil {
			t.Error(err)
		}
		if _, err := c.Receive(); err != io.EOF {
			t.Error(err)
		}
		received <- c.LastReceived()
		if age := c.Age(); age < c.LastReceived() {
			t.Errorf("got age %v, last byte after %v", age, c.LastReceived())
		}
	})
	c := s.open(t, "")
	c.writeFrame(t, 0x81, []byte("x"))
	first := wait(t, received)
	if got := c.readFrame(t); got.op != opPing || len(got.payload) != 0 {
		t.Fatalf("got opcode %x %q, want a ping", got.op, got.payload)
	}
	c.writeFrame(t, 0x8a, nil)
	c.writeFrame(t, 0x88, nil)
	if second := wait(t, received); first <= 0 || second <= first {
		t.Errorf("the last byte came after %v, then after %v", first, second)
	}
}

func TestSend(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			var batch []*Message
			for i, size := range []int{0, 1, 125, 126, 5000, 20, 9000, 30, 65535, 65536, 300_000, 10, 4000, 4000, 4000, 4000, 4000, 7} {
				batch = append(batch, NewMessage(bytes.Repeat([]byte{byte('a' + i)}, size), i%2 == 0))
			}
			batch = append(batch, NewProbe())
			lots := make([]*Message, 1000)
			for i := range lots {
				lots[i] = NewMessage(fmt.Appendf(nil, "message %d", i), false)
			}
			batches := [][]*Message{nil, batch[:1], batch[:4], batch[:5], batch, batch[10:11], lots}
			s := startWith(t, Options{}, func(c Conn) {
				for _, batch := range batches {
					if err := c.Send(batch, time.Now().Add(patience)); err != nil {
						t.Error(err)
					}
				}
				if err := c.SendClose(StatusNormal, time.Now().Add(patience)); err != nil {
					t.Error(err)
				}
				if _, err := c.Receive(); err != io.EOF {
					t.Errorf("got %v, want EOF", err)
				}
			}, secure)
			c := s.open(t, "")
			for _, batch := range batches {
				for _, m := range batch {
					got := c.readFrame(t)
					want := m.Payload()
					if !got.fin || m.Control() != (got.op == opPing) || !bytes.Equal(got.payload, want) {
						t.Fatalf("got opcode %x of %d bytes, want %d bytes", got.op, len(got.payload), len(want))
					}
				}
			}
			c.wantClose(t, StatusNormal)
			c.writeFrame(t, 0x88, []byte("\x03\xe8"))
			c.wantEOF(t, patience)
		})
	}
}

// TestWritersMix has messages, pongs and probes on their way at once.
func TestWritersMix(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			const rounds, writers = 150, 2
			s := startWith(t, Options{}, func(c Conn) {
				var wg sync.WaitGroup
				for w := range writers { // one is the rule; two must not corrupt anything
					wg.Go(func() {
						for i := range rounds {
							batch := []*Message{
								NewMessage(fmt.Appendf(nil, "%d small", w), false),
								NewMessage(bytes.Repeat([]byte{byte('0' + w)}, 1+i*200), true),
								NewProbe(),
							}
							if err := c.Send(batch[i%3:], time.Now().Add(patience)); err != nil {
								t.Error(err)
							}
						}
					})
				}
				for {
					if _, err := c.Receive(); err != nil {
						break
					}
				}
				wg.Wait()
			}, secure)
			c := s.open(t, "")
			sent := make(chan error, 1)
			go func() {
				for i := range rounds {
					if _, err := c.Write(append(clientFrame(0x89, []byte{byte(i)}), clientFrame(0x81, []byte("x"))...)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			frames := map[byte]int{}
			lastPong := -1
			for frames[opText] < writers*rounds/3 || frames[opBinary] < writers*rounds*2/3 || frames[opPing] < writers*rounds || lastPong < rounds-1 {
				f := c.readFrame(t)
				frames[f.op]++
				switch f.op {
				case opText:
					if len(f.payload) != 7 {
						t.Fatalf("got %q", f.payload)
					}
				case opBinary:
					if !bytes.Equal(f.payload, bytes.Repeat(f.payload[:1], len(f.payload))) {
						t.Fatal("a message was torn")
					}
				case opPing + 1:
					if n := int(f.payload[0]); n <= lastPong {
						t.Fatalf("pong %d after pong %d", n, lastPong)
					} else {
						lastPong = n
					}
				}
			}
			if err := wait(t, sent); err != nil {
				t.Fatal(err)
			}
			c.writeFrame(t, 0x88, nil)
			c.wantClose(t, StatusNormal)
		})
	}
}

func TestCloseHandshake(t *testing.T) {
	const grace = 100 * time.Millisecond
	closing := func(c Conn) {
		if _, err := c.Receive(); err != nil {
			return
		}
		if err := c.SendClose(StatusGoingAway, time.Now().Add(grace)); err != nil {
			return
		}
		for {
			if _, err := c.Receive(); err != nil {
				return
			}
		}
	}
	for _, secure := range []bool{false, true} {
		for _, tt := range []struct {
			name   string
			serve  func(Conn)
			client func(t *testing.T, c *rawConn)
		}{
			{"it answers a close without status with 1000", echo, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x88, nil)
				c.wantClose(t, StatusNormal)
			}},
			{"it answers a status with the same", echo, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x88, []byte("\x0f\xa0reason"))
				c.wantClose(t, 4000)
			}},
			{"it does not wait for the peer to close TCP", echo, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x88, []byte("\x03\xe8"))
			}},
			{"it does not wait long for an answer to its close", closing, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x81, []byte("x"))
				c.wantClose(t, StatusGoingAway)
			}},
			{"it does not answer the answer", closing, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x81, []byte("x"))
				c.wantClose(t, StatusGoingAway)
				c.writeFrame(t, 0x88, []byte("\x03\xe9"))
			}},
			{"it answers no ping after its close", closing, func(t *testing.T, c *rawConn) {
				c.writeFrame(t, 0x81, []byte("x"))
				c.wantClose(t, StatusGoingAway)
				c.writeFrame(t, 0x89, []byte("x"))
			}},
			{"it ends with a peer that closes only its half", echo, func(t *testing.T, c *rawConn) {
				half, ok := c.Conn.(interface{ CloseWrite() error })
				if !ok || half.CloseWrite() != nil {
					t.Fatal("no half close")
				}
			}},
			{"it ends with a peer that resets", echo, func(t *testing.T, c *rawConn) {
				conn := c.Conn
				if secure, ok := conn.(*tls.Conn); ok {
					conn = secure.NetConn()
				}
				if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}},
		} {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure), func(t *testing.T) {
				s := startWith(t, Options{WebSocketCloseTimeout: grace}, tt.serve, secure)
				c := s.open(t, "")
				tt.client(t, c)
				if err := s.endpoint.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				for {
					f, err := readFrame(c.r)
					if err != nil {
						if isTimeout(err) {
							t.Error("the descriptor is not free")
						}
						break
					}
					if f.op != opClose {
						t.Errorf("got opcode %x behind the close frame", f.op)
					}
				}
			})
		}
	}
}

func TestSendCloseStatus(t *testing.T) {
	for status, want := range map[int]int{1000: 1000, 1001: 1001, 1011: 1011, 3000: 3000, 4999: 4999, 1005: 1011, 1006: 1011, 1015: 1011, 0: 1011, 5000: 1011} {
		s := start(t, Options{}, func(c Conn) {
			deadline := time.Now().Add(patience)
			if err := c.SendClose(status, deadline); err != nil {
				t.Error(err)
			}
			if err := c.SendClose(1001, deadline); err != nil {
				t.Error(err)
			}
			if err := c.Send([]*Message{NewMessage([]byte("x"), false)}, deadline); !errors.Is(err, ErrClosing) {
				t.Errorf("got %v from Send behind a close frame", err)
			}
			c.Receive()
		})
		c := s.open(t, "")
		c.wantClose(t, want)
		c.writeFrame(t, 0x88, nil)
		c.wantEOF(t, patience)
	}
}

// TestSlowReceiver has a client that reads nothing until it is let.
func TestSlowReceiver(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			sent := make(chan error, 1)
			received := make(chan error, 1)
			s := startWith(t, Options{}, func(c Conn) {
				if _, err := c.Receive(); err != nil {
					t.Error(err)
				}
				big := NewMessage(make([]byte, 32<<20), true)
				sent <- c.Send([]*Message{big}, time.Now().Add(50*time.Millisecond))
				_, err := c.Receive()
				received <- err
			}, secure)
			c := s.open(t, "")
			c.writeFrame(t, 0x81, []byte("x"))
			if err := wait(t, sent); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Send returned %v, want a passed deadline", err)
			}
			if err := wait(t, received); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Receive returned %v, want what the failed Send said", err)
			}
		})
	}
}

// TestPongDoesNotWait has a slow receiver that asks whether we live: the
// reader must go on while the message waits.
func TestPongDoesNotWait(t *testing.T) {
	const size = 16 << 20
	asked := make(chan struct{})
	s := start(t, Options{}, func(c Conn) {
		sent := make(chan error, 1)
		go func() { sent <- c.Send([]*Message{NewMessage(make([]byte, size), true)}, time.Now().Add(patience)) }()
		if _, err := c.Receive(); err != nil { // what follows the pings
			t.Error(err)
		}
		close(asked)
		if err := <-sent; err != nil {
			t.Error(err)
		}
		echo(c)
	})
	c := s.open(t, "")
	if _, err := c.r.Peek(1); err != nil { // the message is under way
		t.Fatal(err)
	}
	for i := range 3 {
		c.writeFrame(t, 0x89, []byte{byte('0' + i)})
	}
	c.writeFrame(t, 0x81, []byte("x"))
	wait(t, asked)
	if got := c.readFrame(t); got.op != opBinary || len(got.payload) != size {
		t.Fatalf("got opcode %x of %d bytes", got.op, len(got.payload))
	}
	if got := c.readFrame(t); got.op != opPing+1 || string(got.payload) != "2" {
		t.Errorf("got opcode %x %q, want the latest pong", got.op, got.payload)
	}
}

// TestWriteDeadlines looks at when a deadline is set: seldom, and never so that
// a write has less than half of its time or more than all of it.
func TestWriteDeadlines(t *testing.T) {
	s, conn := newScripted(t)
	send := func(timeout time.Duration) {
		t.Helper()
		if err := s.Send([]*Message{NewProbe()}, time.Now().Add(timeout)); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		timeout time.Duration
		set     int // how many were set by then
	}{
		{10 * time.Hour, 1},
		{10*time.Hour + time.Minute, 1}, // as it is a minute later
		{19 * time.Hour, 1},
		{21 * time.Hour, 2}, // less than half is left
		{20 * time.Hour, 3}, // shorter than what was set
	} {
		send(step.timeout)
		if len(conn.deadlines) != step.set {
			t.Errorf("step %d: deadlines were set %d times, want %d", i, len(conn.deadlines), step.set)
		}
	}
}

// TestPongIsLatest has a pong that comes when the message in whose way the one
// before came has just gone out.
func TestPongIsLatest(t *testing.T) {
	s, conn := newScripted(t)
	w := &s.wire
	w.mu.Lock()
	if err := w.writePong([]byte{opFin | opPing + 1, 1, 'a'}); err != nil {
		t.Fatal(err)
	}
	w.mu.Unlock()
	if err := w.writePong([]byte{opFin | opPing + 1, 1, 'b'}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{opFin | opPing + 1, 1, 'b'}; !bytes.Equal(conn.out.Bytes(), want) {
		t.Errorf("wrote % x, want % x", conn.out.Bytes(), want)
	}
}

// TestPongIsDropped has a pong that came in the way of a message and is due
// only after the close frame.
func TestPongIsDropped(t *testing.T) {
	s, conn := newScripted(t)
	w := &s.wire
	w.mu.Lock() // a message is being written
	if err := w.writePong([]byte{opFin | opPing + 1, 0}); err != nil {
		t.Fatal(err)
	}
	w.mu.Unlock()
	if err := w.writeStatus(StatusNormal, time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if err := s.Send([]*Message{NewProbe()}, time.Now().Add(patience)); !errors.Is(err, ErrClosing) {
		t.Errorf("got %v from Send behind a close frame", err)
	}
	if want := []byte{opFin | opClose, 2, 0x03, 0xe8}; !bytes.Equal(conn.out.Bytes(), want) {
		t.Errorf("wrote % x, want % x", conn.out.Bytes(), want)
	}
}

func TestCloseNow(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			conns := make(chan Conn, 1)
			results := make(chan error, 2)
			s := startWith(t, Options{}, func(c Conn) {
				sent := make(chan error, 1)
				go func() { sent <- c.Send([]*Message{NewMessage(make([]byte, 32<<20), true)}, time.Now().Add(time.Hour)) }()
				conns <- c
				_, err := c.Receive()
				results <- err
				results <- <-sent
			}, secure)
			c := s.open(t, "")
			if _, err := c.r.ReadByte(); err != nil { // Send is under way
				t.Fatal(err)
			}
			conn := wait(t, conns)
			conn.CloseNow()
			conn.CloseNow()
			for range 2 {
				if err := wait(t, results); err == nil || err == io.EOF {
					t.Errorf("got %v", err)
				}
			}
			if conn.Send([]*Message{NewProbe()}, time.Now().Add(patience)) == nil {
				t.Error("Send succeeded on a closed connection")
			}
			if _, err := conn.Receive(); err == nil || err == io.EOF {
				t.Errorf("Receive returned %v on a closed connection", err)
			}
		})
	}
}

// TestDropDoesNotWait has a TLS peer that reads nothing: tls.Conn.Close would
// wait 5 s for it to take the farewell.
func TestDropDoesNotWait(t *testing.T) {
	s := startTLS(t, Options{}, echo) // for its certificate
	inner, outer := net.Pipe()
	defer inner.Close()
	client := tls.Client(inner, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	server := tls.Server(outer, s.http.TLS)
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, shaken); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	(&wire{Conn: server}).drop()
	if took := time.Since(begin); took >= 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := inner.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}

func TestSendPastDeadline(t *testing.T) {
	s := start(t, Options{}, func(c Conn) {
		if err := c.Send([]*Message{NewProbe()}, time.Now().Add(-time.Second)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	s.open(t, "").wantEOF(t, patience)
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestConnFacts(t *testing.T) {
	facts := make(chan string, 1)
	s := start(t, Options{}, func(c Conn) {
		facts <- fmt.Sprintln(c.Kind(), c.Binary(), c.RemoteAddr())
	})
	c := s.open(t, "")
	if got, want := wait(t, facts), fmt.Sprintln(WebSockets, true, c.LocalAddr()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
