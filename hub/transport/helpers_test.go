package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// A testServer is an Endpoint on a loopback listener at the path /hub.
type testServer struct {
	endpoint *Endpoint
	http     *httptest.Server
	addr     string

	mu    sync.Mutex
	conns []Conn
}

// start serves an endpoint whose connections run serve.
func start(t testing.TB, opts Options, serve func(Conn)) *testServer {
	t.Helper()
	return startWith(t, opts, serve, false)
}

func startTLS(t testing.TB, opts Options, serve func(Conn)) *testServer {
	t.Helper()
	return startWith(t, opts, serve, true)
}

func startWith(t testing.TB, opts Options, serve func(Conn), secure bool) *testServer {
	t.Helper()
	s := &testServer{}
	if opts.Open == nil {
		opts.Open = func(*http.Request, Info) (func(Conn), error) {
			return func(c Conn) {
				s.mu.Lock()
				s.conns = append(s.conns, c)
				s.mu.Unlock()
				serve(c)
			}, nil
		}
	}
	endpoint, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.endpoint = endpoint
	mux := http.NewServeMux()
	mux.Handle("/hub", endpoint)
	mux.Handle("/hub/{$}", endpoint)
	mux.Handle("/hub/negotiate", endpoint)
	if opts.Advertise == "" {
		s.http = httptest.NewUnstartedServer(mux)
	} else {
		s.http = serverAt(t, opts.Advertise, mux)
	}
	s.http.EnableHTTP2 = secure
	if secure {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.addr = s.http.Listener.Addr().String()
	t.Cleanup(func() {
		s.closeAll()
		s.http.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := endpoint.Wait(ctx); err != nil {
			t.Errorf("connections did not end: %v", err)
		}
		endpoint.Close()
		if n := endpoint.Stats().Open; n != 0 {
			t.Errorf("%d connections open at the end", n)
		}
	})
	return s
}

// freeAddress is an address to listen on: below the ports that the system gives
// out, or somebody else might have it before it is used.
func freeAddress(t testing.TB) string {
	t.Helper()
	const first, count = 20_000, 10_000
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}

// serverAt is a server that will listen on a known address.
func serverAt(t testing.TB, addr string, h http.Handler) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	return s
}

func (s *testServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.CloseNow()
	}
}

// startEcho serves an endpoint that sends back, as text, each piece it gets.
func startEcho(t testing.TB, opts Options) *testServer {
	t.Helper()
	return start(t, opts, echo)
}

func echo(c Conn) {
	for {
		piece, err := c.Receive()
		if err != nil {
			return
		}
		if err := c.Send([]*Message{NewMessage(piece, false)}, time.Now().Add(patience)); err != nil {
			return
		}
	}
}

// do sends a request as written, with \n for line ends and an empty line added,
// and returns the answer.
func (s *testServer) do(t testing.TB, request string) *http.Response {
	t.Helper()
	conn := s.dial(t)
	return roundTrip(t, conn, bufio.NewReader(conn), request)
}

func (s *testServer) dial(t testing.TB) net.Conn {
	t.Helper()
	conn := s.dialPlain(t)
	if s.http.TLS != nil {
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	return conn
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReader(conn) }

func (s *testServer) dialPlain(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func roundTrip(t testing.TB, conn net.Conn, r *bufio.Reader, request string) *http.Response {
	t.Helper()
	if !strings.HasSuffix(request, "\n\n") {
		request = strings.TrimSuffix(request, "\n") + "\n\n"
	}
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("answer to %q: %v", request, err)
	}
	return resp
}

func body(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// upgradeHeaders is a WebSocket handshake without its first line and Host.
const upgradeHeaders = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"

// A rawConn is the client's side of a WebSocket, byte by byte.
type rawConn struct {
	net.Conn
	r *bufio.Reader
}

// open opens a WebSocket; the query follows the path, "?" included.
func (s *testServer) open(t testing.TB, query string) *rawConn {
	t.Helper()
	c, resp := s.tryOpen(t, query)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got status %d %q, want 101", resp.StatusCode, body(t, resp))
	}
	return c
}

func (s *testServer) tryOpen(t testing.TB, query string) (*rawConn, *http.Response) {
	t.Helper()
	c := &rawConn{Conn: s.dial(t)}
	c.r = bufio.NewReader(c.Conn)
	resp := roundTrip(t, c.Conn, c.r, "GET /hub"+query+" HTTP/1.1\nHost: "+s.addr+"\n"+upgradeHeaders)
	return c, resp
}

// A frame is one frame of a server.
type frame struct {
	fin     bool
	op      byte
	payload []byte
}

// clientFrame writes a masked frame with the first byte as given.
func clientFrame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x11, 0x22, 0x33, 0x44}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

func (c *rawConn) writeFrame(t testing.TB, first byte, payload []byte) {
	t.Helper()
	c.write(t, clientFrame(first, payload))
}

func (c *rawConn) write(t testing.TB, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (c *rawConn) readFrame(t testing.TB) frame {
	t.Helper()
	f, err := readFrame(c.r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readFrame(r io.Reader) (frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return frame{}, err
	}
	f := frame{fin: head[0]&opFin != 0, op: head[0] & 0xf}
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return frame{}, fmt.Errorf("frame header % x: reserved bits or mask", head[:2])
	}
	n := uint64(head[1])
	switch n {
	case 126:
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return frame{}, err
		}
		n = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		if _, err := io.ReadFull(r, head[:8]); err != nil {
			return frame{}, err
		}
		n = binary.BigEndian.Uint64(head[:])
	}
	if n > 64<<20 {
		return frame{}, errors.New("frame too long")
	}
	f.payload = make([]byte, n)
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

// wantClose reads on until the close frame and compares its status.
func (c *rawConn) wantClose(t testing.TB, status int) {
	t.Helper()
	f := c.readFrame(t)
	if f.op != opClose || len(f.payload) < 2 || int(binary.BigEndian.Uint16(f.payload)) != status {
		t.Fatalf("got opcode %x, payload %x, want close %d", f.op, f.payload, status)
	}
}

// wantEOF reads until the server has closed the connection.
func (c *rawConn) wantEOF(t testing.TB, within time.Duration) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, c.r)
	if ne, ok := errors.AsType[net.Error](err); n > 0 || ok && ne.Timeout() {
		t.Fatalf("got %d bytes and %v, want the end of the connection", n, err)
	}
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) contains(text string) bool { return strings.Contains(l.all(), text) }

// logger writes warnings to l, and nothing below.
func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// A timedRecorder is a recorder that has deadlines, which its writes always
// keep.
type timedRecorder struct{ *httptest.ResponseRecorder }

func (timedRecorder) SetWriteDeadline(time.Time) error { return nil }
