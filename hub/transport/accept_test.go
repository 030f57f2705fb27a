package transport

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestUpgradeHeaders(t *testing.T) {
	s := startEcho(t, Options{})
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
	const version = "Sec-WebSocket-Version: 13\n"
	for _, tt := range []struct {
		name, first, headers string
		code                 int
	}{
		{"it takes a plain handshake", "", upgradeHeaders, 101},
		{"it takes a list of connection options", "", "Connection: keep-alive, Upgrade\nUpgrade: websocket\n" + version + key, 101},
		{"it takes two Connection lines", "", "Connection: keep-alive\nConnection: Upgrade\nUpgrade: websocket\n" + version + key, 101},
		{"it takes capitals", "", "CONNECTION: UPGRADE\nUPGRADE: WEBSOCKET\nSEC-WEBSOCKET-VERSION: 13\n" + key, 101},
		{"it takes WebSocket spelled otherwise", "", "Connection: upgrade\nUpgrade: WebSocket\n" + version + key, 101},
		{"it takes extra spaces", "", "Connection:   keep-alive ,  Upgrade  \nUpgrade:  websocket \nSec-WebSocket-Version:  13 \nSec-WebSocket-Key:  dGhlIHNhbXBsZSBub25jZQ==  \n", 101},
		{"it takes a list of protocols to upgrade to", "", "Connection: Upgrade\nUpgrade: h2c, websocket\n" + version + key, 101},
		{"it takes offers without accepting them", "", upgradeHeaders + "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\nSec-WebSocket-Protocol: a, b\n", 101},
		{"it takes an empty id", "GET /hub?id= HTTP/1.1", upgradeHeaders, 101},
		{"it takes further query items", "GET /hub?a=b&id=&%zz HTTP/1.1", upgradeHeaders, 101},
		{"it takes a path that ends in a slash", "GET /hub/ HTTP/1.1", upgradeHeaders, 101},
		{"it refuses HTTP/1.0", "GET /hub HTTP/1.0", upgradeHeaders, 426},
		{"it refuses no key", "", "Connection: Upgrade\nUpgrade: websocket\n" + version, 400},
		{"it refuses a key that is not base64", "", "Connection: Upgrade\nUpgrade: websocket\n" + version + "Sec-WebSocket-Key: ????\n", 400},
		{"it refuses a key of another length", "", "Connection: Upgrade\nUpgrade: websocket\n" + version + "Sec-WebSocket-Key: c2hvcnQ=\n", 400},
		{"it refuses two keys", "", upgradeHeaders + key, 400},
		{"it refuses version 8", "", "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 8\n" + key, 426},
		{"it refuses no version", "", "Connection: Upgrade\nUpgrade: websocket\n" + key, 426},
		{"it refuses a handshake whose Connection a proxy has taken", "", "Upgrade: websocket\n" + version + key, 426},
		{"it refuses a handshake whose Upgrade a proxy has taken", "", "Connection: keep-alive\n" + version + key, 426},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := tt.first
			if first == "" {
				first = "GET /hub HTTP/1.1"
			}
			resp := s.do(t, first+"\nHost: "+s.addr+"\n"+tt.headers)
			if resp.StatusCode != tt.code {
				t.Fatalf("got status %d, want %d", resp.StatusCode, tt.code)
			}
			h := resp.Header
			if tt.code != 101 {
				if h.Get("Sec-WebSocket-Version") != "13" || body(t, resp) == "" {
					t.Errorf("got no supported version or no text: %v", h)
				}
				return
			}
			if h.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || !strings.EqualFold(h.Get("Upgrade"), "websocket") || !strings.EqualFold(h.Get("Connection"), "upgrade") {
				t.Errorf("got %v", h)
			}
			if h.Get("Sec-WebSocket-Extensions") != "" || h.Get("Sec-WebSocket-Protocol") != "" {
				t.Errorf("accepted an offer: %v", h)
			}
		})
	}
}

// TestStatuses covers what is answered to everything but a WebSocket.
func TestStatuses(t *testing.T) {
	keys := newTestKeys()
	s := startEcho(t, Options{Keys: keys, Transports: []Kind{WebSockets}})
	fresh := s.negotiate(t, "?negotiateVersion=1").ConnectionToken
	used := s.negotiate(t, "?negotiateVersion=1")
	s.open(t, "?id="+used.ConnectionToken)
	for _, tt := range []struct {
		name, request string
		code          int
		text          string
	}{
		{"it wants an id for a poll", "GET /hub HTTP/1.1", 400, textNoID},
		{"it wants an id for an event stream", "GET /hub?id= HTTP/1.1\nAccept: text/event-stream", 400, textNoID},
		{"it wants an id for a POST", "POST /hub HTTP/1.1\nContent-Length: 0", 400, textNoID},
		{"it wants an id for a DELETE", "DELETE /hub HTTP/1.1", 400, textNoID},
		{"it knows no such poll", "GET /hub?id=x HTTP/1.1", 404, textUnknownID},
		{"it knows no such event stream", "GET /hub?id=x HTTP/1.1\nAccept: text/event-stream", 404, textUnknownID},
		{"it knows no such POST", "POST /hub?id=x HTTP/1.1\nContent-Length: 0", 404, textUnknownID},
		{"it knows no such DELETE", "DELETE /hub?id=x HTTP/1.1", 404, textUnknownID},
		{"it has no long polling", "GET /hub?id=" + fresh + " HTTP/1.1", 404, "LongPolling transport not supported by this end point type"},
		{"it has no event streams", "GET /hub?id=" + fresh + " HTTP/1.1\nAccept: text/event-stream", 404, "ServerSentEvents transport not supported by this end point type"},
		{"it sees an event stream in an upgrade", "GET /hub?id=" + fresh + " HTTP/1.1\nAccept: text/event-stream\n" + strings.TrimSpace(upgradeHeaders), 404, "ServerSentEvents transport not supported by this end point type"},
		{"it matches event-stream as a whole", "GET /hub?id=" + fresh + " HTTP/1.1\nAccept: text/event-stream;q=0.9", 404, "LongPolling transport not supported by this end point type"},
		{"it has no long polling for a WebSocket either", "GET /hub?id=" + used.ConnectionToken + " HTTP/1.1", 404, "LongPolling transport not supported by this end point type"},
		{"it takes no DELETE before a connection", "DELETE /hub?id=" + fresh + " HTTP/1.1", 400, textNoDelete},
		{"it takes no POST for a WebSocket", "POST /hub?id=" + used.ConnectionToken + " HTTP/1.1\nContent-Length: 0", 405, textNoPost},
		{"it takes no DELETE for a WebSocket", "DELETE /hub?id=" + used.ConnectionToken + " HTTP/1.1", 400, textNoDelete},
		{"it takes no public id", "POST /hub?id=" + used.ConnectionID + " HTTP/1.1\nContent-Length: 0", 404, textUnknownID},
		{"it has no PUT", "PUT /hub HTTP/1.1\nContent-Length: 0", 405, ""},
		{"it has no PATCH", "PATCH /hub?id=" + fresh + " HTTP/1.1\nContent-Length: 0", 405, ""},
		{"it has no HEAD", "HEAD /hub HTTP/1.1", 405, ""},
		{"it answers a bare OPTIONS", "OPTIONS /hub HTTP/1.1", 204, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := s.do(t, tt.request+"\nHost: "+s.addr)
			if got := body(t, resp); resp.StatusCode != tt.code || got != tt.text {
				t.Errorf("got status %d %q, want %d %q", resp.StatusCode, got, tt.code, tt.text)
			}
			if got := resp.Header.Get("Content-Type"); tt.text != "" && got != "text/plain" {
				t.Errorf("got type %q", got)
			}
			if allow := resp.Header.Get("Allow"); (tt.code == 405 && tt.text == "" || tt.code == 204) && allow != "DELETE, GET, OPTIONS, POST" {
				t.Errorf("got Allow %q", allow)
			}
		})
	}
}

func TestHTTP2(t *testing.T) {
	log := &lines{}
	e, err := New(Options{Open: noOpen, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(e)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/hub", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := body(t, resp); resp.ProtoMajor != 2 || resp.StatusCode != http.StatusBadRequest || got != textNoHTTP2 {
		t.Errorf("GET over HTTP/%d: got status %d %q", resp.ProtoMajor, resp.StatusCode, got)
	}
	if !log.contains("HTTP/2") {
		t.Errorf("the log does not name the cause: %q", log.all())
	}

	// What net/http passes on for RFC 8441, if it is told to announce it.
	w := httptest.NewRecorder()
	connect := httptest.NewRequestWithContext(t.Context(), http.MethodConnect, "https://example.test/hub", nil)
	connect.ProtoMajor, connect.Proto = 2, "HTTP/2.0"
	connect.Header[":protocol"] = []string{"websocket"}
	e.ServeHTTP(w, connect)
	if w.Code != http.StatusBadRequest || w.Body.String() != textNoHTTP2 {
		t.Errorf("extended CONNECT: got status %d %q", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	delete(connect.Header, ":protocol")
	e.ServeHTTP(w, connect)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("CONNECT: got status %d", w.Code)
	}
}

// TestHTTP2Beside has a browser's two connections: HTTP/2 for negotiate and
// HTTP/1.1 for the WebSocket, on one listener.
func TestHTTP2Beside(t *testing.T) {
	s := startTLS(t, Options{}, echo)
	conn := tls.Client(s.dialPlain(t), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	defer conn.Close()
	c := &rawConn{Conn: conn, r: bufio.NewReader(conn)}
	resp := roundTrip(t, conn, c.r, "GET /hub HTTP/1.1\nHost: "+s.addr+"\nOrigin: https://"+s.addr+"\n"+upgradeHeaders)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got status %d", resp.StatusCode)
	}
	c.writeFrame(t, 0x81, []byte("hello"))
	if got := c.readFrame(t); string(got.payload) != "hello" {
		t.Errorf("got %q", got.payload)
	}
}

func TestNoHijacker(t *testing.T) {
	log := &lines{}
	e, err := New(Options{Open: noOpen, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hub", nil)
	for line := range strings.Lines(upgradeHeaders) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	e.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || !log.contains("http.Hijacker") {
		t.Errorf("got status %d, log %q", w.Code, log.all())
	}
}

// TestMiddleware has a ResponseWriter in between that can be unwrapped.
func TestMiddleware(t *testing.T) {
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) { return echo, nil }})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.ServeHTTP(unwrappable{w}, r)
	}))
	defer srv.Close()
	s := &testServer{http: srv, addr: srv.Listener.Addr().String()}
	c := s.open(t, "")
	c.writeFrame(t, 0x81, []byte("hello"))
	c.readFrame(t)
	c.Close()
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type unwrappable struct{ w http.ResponseWriter }

func (u unwrappable) Header() http.Header         { return u.w.Header() }
func (u unwrappable) Write(b []byte) (int, error) { return u.w.Write(b) }
func (u unwrappable) WriteHeader(code int)        { u.w.WriteHeader(code) }
func (u unwrappable) Unwrap() http.ResponseWriter { return u.w }

// TestServerDeadlines has an HTTP server whose timeouts must not outlive the
// upgrade.
func TestServerDeadlines(t *testing.T) {
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) { return echo, nil }})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(e)
	const timeout = 50 * time.Millisecond
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = timeout, timeout
	srv.Start()
	defer srv.Close()
	s := &testServer{http: srv, addr: srv.Listener.Addr().String()}
	c := s.open(t, "")
	if err := c.SetReadDeadline(time.Now().Add(4 * timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.r.ReadByte(); !isTimeout(err) {
		t.Fatalf("got %v while nothing happened", err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c.writeFrame(t, 0x81, []byte("hello"))
	c.readFrame(t)
	c.Close()
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestEarlyBytes(t *testing.T) {
	s := startEcho(t, Options{})
	for _, size := range []int{1, 100, 3000, 100_000} {
		conn := s.dial(t)
		request := "GET /hub HTTP/1.1\nHost: " + s.addr + "\n" + upgradeHeaders + "\n"
		both := append([]byte(strings.ReplaceAll(request, "\n", "\r\n")), clientFrame(0x81, []byte(strings.Repeat("x", size)))...)
		c := &rawConn{Conn: conn, r: bufio.NewReader(conn)}
		c.write(t, both)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v", resp, err)
		}
		for got := 0; got < size; {
			got += len(c.readFrame(t).payload)
		}
		c.Close()
	}
}

func noOpen(*http.Request, Info) (func(Conn), error) { return nil, errors.New("not expected") }

func isTimeout(err error) bool {
	ne, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && ne.Timeout()
}

// TestVanished has a client that is gone when its connection is taken over.
func TestVanished(t *testing.T) {
	called := false
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) {
		return func(Conn) { called = true }, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	keys := e.opts.Keys.Keys()
	tok := token{until: time.Now().Add(time.Minute), id: newID()}
	tok.sign(&keys[0])
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hub?id="+tok.text, nil)
	for line := range strings.Lines(upgradeHeaders) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	for range 2 { // the token stays unspent
		e.ServeHTTP(vanished{httptest.NewRecorder()}, r)
	}
	if got := e.Stats(); called || got.Open != 0 || got.Accepted != 0 || got.Refused[RefusedVanished] != 2 {
		t.Errorf("served: %v, %+v", called, got)
	}
}

type vanished struct{ http.ResponseWriter }

func (vanished) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, net.ErrClosed }

// TestWrappedListener has connections of a type of their own, whose Read must
// not be passed by.
func TestWrappedListener(t *testing.T) {
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) { return echo, nil }})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(e)
	l := &countingListener{Listener: srv.Listener}
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	s := &testServer{http: srv, addr: srv.Listener.Addr().String()}
	c := s.open(t, "")
	before := l.read.Load()
	for _, size := range []int{1, 1000, 50_000} {
		c.writeFrame(t, 0x81, make([]byte, size))
		for got := 0; got < size; {
			got += len(c.readFrame(t).payload)
		}
	}
	c.Close()
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.read.Load() - before; got < 51_001 {
		t.Errorf("%d bytes went through the connection's own Read", got)
	}
}

type countingListener struct {
	net.Listener
	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(*net.TCPConn), l}, nil
}

// A countingConn has all methods of a TCP connection, and one that differs.
type countingConn struct {
	*net.TCPConn
	l *countingListener
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.l.read.Add(int64(n))
	return n, err
}
