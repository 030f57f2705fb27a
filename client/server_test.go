package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A network is a listener whose connections are in-memory pipes, so that tests
// can run in synctest bubbles.
type network struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newNetwork() *network {
	return &network{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.done) }); return nil }
func (n *network) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A script is what a test's server does with one connection after the
// handshake.
type script func(p *peer)

// A testServer is a SignalR server that does what scripts say: one script per
// connection, the last one for all that follow.
type testServer struct {
	t         testing.TB
	network   *network
	negotiate http.HandlerFunc // nil answers with connection ids c1, c2, …
	handshake string           // the answer; empty agrees
	resumable bool             // agrees to stateful reconnects
	resumed   script           // runs instead of the handshake when a token comes again
	upgrade   func(w http.ResponseWriter, r *http.Request) bool
	serving   sync.WaitGroup // net/http does not wait for upgraded connections

	mu       sync.Mutex
	plain    map[string]*plainConn // by token
	used     map[string]bool       // tokens
	scripts  []script
	number   int // of connections negotiated
	requests []*http.Request
}

// newServer starts a server at http://hub/chat that ends with the test. Call
// it inside the bubble, if there is one.
func newServer(t testing.TB, scripts ...script) *testServer {
	t.Helper()
	s := &testServer{t: t, network: newNetwork(), scripts: scripts, plain: map[string]*plainConn{}, used: map[string]bool{}}
	server := &http.Server{Handler: s}
	s.serving.Go(func() { _ = server.Serve(s.network) })
	t.Cleanup(func() {
		server.Close()
		s.mu.Lock()
		for _, c := range s.plain {
			c.leave()
		}
		s.mu.Unlock()
		s.serving.Wait()
	})
	return s
}

// client makes a client of s that is stopped with the test.
func (s *testServer) client(opts Options) *Client {
	s.t.Helper()
	transport := &http.Transport{DialContext: s.network.dial}
	opts.HTTPClient = &http.Client{Transport: transport}
	if opts.URL == "" {
		opts.URL = "http://hub/chat"
	}
	c, err := New(opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			s.t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return c
}

// started is client and Start.
func (s *testServer) started(opts Options) *Client {
	s.t.Helper()
	c := s.client(opts)
	if err := c.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *testServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Done()
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/negotiate"):
		if s.negotiate != nil {
			s.negotiate(w, r)
			return
		}
		s.mu.Lock()
		s.number++
		id := string(rune('0' + s.number%10))
		s.mu.Unlock()
		agreed := ""
		if s.resumable && r.URL.Query().Get("useStatefulReconnect") == "true" {
			agreed = `"useStatefulReconnect":true,`
		}
		answerNegotiate(w, agreed+`"negotiateVersion":1,"connectionId":"c`+id+`","connectionToken":"t`+id+`"`)
	case s.upgrade != nil && !s.upgrade(w, r):
	case r.Header.Get("Upgrade") == "":
		s.servePlain(w, r)
	default:
		s.serve(w, r)
	}
}

// answerNegotiate writes the usual transports behind the given members.
func answerNegotiate(w http.ResponseWriter, members string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{`+members+`,"availableTransports":[{"transport":"WebSockets","transferFormats":["Text","Binary"]},{"transport":"ServerSentEvents","transferFormats":["Text"]},{"transport":"LongPolling","transferFormats":["Text","Binary"]}]}`)
}

// seen returns the requests so far whose path ends in suffix.
func (s *testServer) seen(suffix string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*http.Request
	for _, r := range s.requests {
		if strings.HasSuffix(r.URL.Path, suffix) {
			found = append(found, r)
		}
	}
	return found
}

// next returns the script for a new connection.
func (s *testServer) next() script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scripts) == 0 {
		return func(p *peer) { p.drain() }
	}
	first := s.scripts[0]
	if len(s.scripts) > 1 {
		s.scripts = s.scripts[1:]
	}
	return first
}

// serve does the handshake and runs a script.
func (s *testServer) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(-1)
	p := &peer{t: s.t, ws: ws, protocol: protocol.JSON{}}
	token := r.URL.Query().Get("id")
	s.mu.Lock()
	again := s.resumable && s.used[token]
	s.used[token] = true
	s.mu.Unlock()
	if again {
		s.resumed(p)
		return
	}
	s.run(p)
}

// run does the handshake and runs a script.
func (s *testServer) run(p *peer) {
	request, err := p.readBytes()
	if err != nil {
		return
	}
	hello, _, err := protocol.ParseHandshakeRequest(request, 0)
	version := 1
	if s.resumable && p.ws != nil {
		version = 2
	}
	if err != nil || hello.Version != version {
		s.t.Errorf("handshake: %q, %v", request, err)
		return
	}
	p.protocol, _ = protocol.ByName(hello.Protocol, protocol.JSON{}, protocol.MessagePack{})
	if s.handshake == "" {
		p.write("{}\x1e")
	} else {
		p.write(s.handshake)
	}
	s.next()(p)
}

// A peer is the server's end of one connection. Its methods are for one
// goroutine. Writing to a client that is gone is no error.
type peer struct {
	t        testing.TB
	ws       *websocket.Conn // nil on other transports
	plain    *plainConn
	protocol protocol.Protocol
	buf      []byte
}

// send sends JSON records as one WebSocket message.
func (p *peer) send(records ...string) {
	p.write(strings.Join(records, "\x1e") + "\x1e")
}

// write sends text as one WebSocket message.
func (p *peer) write(text string) { p.writeBytes([]byte(text)) }

func (p *peer) writeBytes(b []byte) {
	if p.ws == nil {
		p.plain.send(b)
		return
	}
	kind := websocket.MessageText
	if p.protocol.Binary() {
		kind = websocket.MessageBinary
	}
	_ = p.ws.Write(context.Background(), kind, b)
}

// read returns the next record, pings included, or false at the end.
func (p *peer) read() (*protocol.Message, bool) {
	for {
		body, size, err := p.protocol.Cut(p.buf, 0)
		if err != nil {
			p.t.Errorf("server: %v", err)
			return nil, false
		}
		if size > 0 {
			m := new(protocol.Message)
			if err := p.protocol.Parse(append([]byte{}, body...), m); err != nil {
				p.t.Errorf("server: %q: %v", body, err)
				return nil, false
			}
			p.buf = p.buf[size:]
			return m, true
		}
		b, err := p.readBytes()
		if err != nil {
			return nil, false
		}
		p.buf = append(p.buf, b...)
	}
}

// readBytes returns what the client sent as one.
func (p *peer) readBytes() ([]byte, error) {
	if p.ws == nil {
		return p.plain.receive()
	}
	_, b, err := p.ws.Read(context.Background())
	return b, err
}

// expect returns the next record that is no ping, which must have the type.
func (p *peer) expect(typ protocol.Type) *protocol.Message {
	p.t.Helper()
	for {
		m, ok := p.read()
		switch {
		case !ok:
			p.t.Errorf("server: connection ended, want a record of type %d", typ)
			return new(protocol.Message)
		case m.Type == protocol.Ping:
		case m.Type != typ:
			p.t.Errorf("server: got a record of type %d want %d", m.Type, typ)
			return m
		default:
			return m
		}
	}
}

// sendAfter sends a record after a time during which it reads.
func (p *peer) sendAfter(d time.Duration, record string) {
	timer := time.AfterFunc(d, func() { p.send(record) })
	defer timer.Stop()
	p.drain()
}

// sendAndRead sends records, one per WebSocket message, while it reads.
func (p *peer) sendAndRead(records ...string) {
	var sending sync.WaitGroup
	sending.Go(func() {
		for _, r := range records {
			p.send(r)
		}
	})
	p.drain()
	sending.Wait()
}

// drain reads until the connection ends.
func (p *peer) drain() {
	for {
		if _, ok := p.read(); !ok {
			return
		}
	}
}

// echo answers every call with its first argument.
func echo(p *peer) {
	for {
		m, ok := p.read()
		if !ok {
			return
		}
		if m.Type == protocol.Invocation && len(m.InvocationID) > 0 {
			p.send(`{"type":3,"invocationId":"` + string(m.InvocationID) + `","result":` + string(m.Arguments[0]) + `}`)
		}
	}
}
