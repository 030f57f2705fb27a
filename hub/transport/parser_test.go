package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A scripted is a connection that has some bytes to read and then calls dry,
// on the reader's goroutine. What is written to it is kept.
type scripted struct {
	net.Conn
	in        []byte
	dry       func(p []byte) (int, error)
	out       bytes.Buffer
	deadlines []time.Time // of writes, as they were set
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return c.dry(p)
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error)     { return c.out.Write(p) }
func (c *scripted) Close() error                    { return nil }
func (c *scripted) SetDeadline(time.Time) error     { return nil }
func (c *scripted) SetReadDeadline(time.Time) error { return nil }
func (c *scripted) SetWriteDeadline(t time.Time) error {
	c.deadlines = append(c.deadlines, t)
	return nil
}

func newScripted(t *testing.T) (*socket, *scripted) {
	t.Helper()
	e, err := New(Options{Open: noOpen})
	if err != nil {
		t.Fatal(err)
	}
	conn := &scripted{}
	return &socket{endpoint: e, wire: wire{Conn: conn, start: time.Now(), grace: patience}}, conn
}

// TestIdleHoldsNothing looks at what a connection holds whenever there is
// nothing to read for it.
func TestIdleHoldsNothing(t *testing.T) {
	message := clientFrame(0x81, []byte("hello"))
	last := clientFrame(0x81, []byte("!"))
	for _, tt := range []struct {
		name   string
		before []byte
		after  []byte
		want   string
		holds  bool // it is inside a message or a frame
	}{
		{"it holds nothing at first", nil, last, "!", false},
		{"it holds nothing after a message", message, last, "hello!", false},
		{"it holds nothing after many messages", bytes.Repeat(message, 500), last, strings.Repeat("hello", 500) + "!", false},
		{"it holds nothing after a pong", clientFrame(0x8a, nil), last, "!", false},
		{"it holds nothing after a ping", clientFrame(0x89, []byte("?")), last, "!", false},
		{"it holds nothing after a message and pings", append(bytes.Clone(message), bytes.Repeat(clientFrame(0x89, nil), 300)...), last, "hello!", false},
		{"it holds a parser inside a frame header", message[:1], message[1:], "hello", true},
		{"it holds a parser inside a frame", message[:8], message[8:], "hello", true},
		{"it holds a parser between fragments", clientFrame(0x01, []byte("x")), clientFrame(0x80, []byte("!")), "x!", true},
		{"it holds a parser after a ping between fragments", append(clientFrame(0x01, []byte("x")), clientFrame(0x89, nil)...), clientFrame(0x80, []byte("!")), "x!", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, conn := newScripted(t)
			conn.in = tt.before
			conn.dry = func(p []byte) (int, error) { // the first time
				if holds := s.parser != nil; holds != tt.holds {
					t.Errorf("holds a parser: %v, want %v", holds, tt.holds)
				}
				if !tt.holds && s.piece != nil {
					t.Error("holds a piece")
				}
				conn.in = tt.after
				conn.dry = func([]byte) (int, error) { return 0, io.EOF }
				return conn.Read(p)
			}
			var got []byte
			for {
				piece, err := s.Receive()
				if err != nil {
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatal(err)
					}
					break
				}
				got = append(got, piece...)
			}
			if string(got) != tt.want {
				t.Errorf("got %d bytes, want %d", len(got), len(tt.want))
			}
		})
	}
}

// TestParserServesOthers has one parser read from several connections in turn.
func TestParserServesOthers(t *testing.T) {
	e, err := New(Options{Open: noOpen})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newParser()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		conn := &scripted{in: append(clientFrame(0x89, []byte{byte(i)}), clientFrame(0x81, []byte{byte(i)})...)}
		w := &wire{Conn: conn, start: time.Now(), grace: patience}
		p.wire = w
		r, err := p.message()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, []byte{byte(i)}) {
			t.Fatalf("got %x, %v", got, err)
		}
		if want := []byte{opFin | opPing + 1, 1, byte(i)}; !bytes.Equal(conn.out.Bytes(), want) {
			t.Fatalf("wrote % x, want % x", conn.out.Bytes(), want)
		}
		e.putParser(p)
		if p.wire != nil || p.control {
			t.Fatal("the parser was not taken back")
		}
	}
}

// TestLateParserServesNobody has a control frame that took so long that the
// library may yet close what it believes to be its connection.
func TestLateParserServesNobody(t *testing.T) {
	s, conn := newScripted(t)
	s.wire.start = time.Now().Add(-time.Hour)
	s.wire.last.Store(int64(time.Hour - 5*time.Second))
	conn.in = clientFrame(0x89, nil)
	p, err := s.endpoint.takeParser(&s.wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.message(); !errors.Is(err, errIdle) {
		t.Fatalf("got %v", err)
	}
	s.endpoint.putParser(p)
	if p.wire != &s.wire {
		t.Error("the parser was taken back")
	}
}

func TestNewParser(t *testing.T) {
	for range 3 {
		p, err := newParser()
		if err != nil || p.ws == nil || p.wire != nil {
			t.Fatalf("got %+v, %v", p, err)
		}
	}
}

// FuzzReceive has a client that sends anything at all.
func FuzzReceive(f *testing.F) {
	f.Add(clientFrame(0x81, []byte("hello")))
	f.Add(append(clientFrame(0x01, []byte("hel")), clientFrame(0x80, []byte("lo"))...))
	f.Add(append(clientFrame(0x89, nil), clientFrame(0x88, []byte("\x03\xe8"))...))
	f.Add([]byte{0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	e, err := New(Options{Open: noOpen})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := &scripted{in: in, dry: func([]byte) (int, error) { return 0, io.EOF }}
		s := &socket{endpoint: e, wire: wire{Conn: conn, start: time.Now(), grace: patience}}
		n := 0
		for {
			piece, err := s.Receive()
			if err != nil {
				break
			}
			if n += len(piece); len(piece) == 0 || n > len(in) {
				t.Fatalf("a piece of %d bytes, %d in all, from %d", len(piece), n, len(in))
			}
		}
		for out := bytes.NewReader(conn.out.Bytes()); out.Len() > 0; {
			got, err := readFrame(out)
			if err != nil || got.op != opPing+1 && got.op != opClose || got.op == opClose && out.Len() > 0 {
				t.Fatalf("wrote % x, %v", conn.out.Bytes(), err)
			}
		}
	})
}

func BenchmarkNewParser(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newParser(); err != nil {
			b.Fatal(err)
		}
	}
}
