package forward

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const handshake = "GET /hub?id=1 HTTP/1.1\nHost: hub.example\nConnection: keep-alive, Upgrade\nUpgrade: WebSocket\n" +
	"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Version: 13\nOrigin: http://hub.example\n\n"

// socketOwner serves upgrades: serve gets the hijacked connection.
func socketOwner(t testing.TB, behind string, serve func(r *http.Request, c *net.TCPConn, from *bufio.Reader)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: yes\r\nX-Own: 1\r\n\r\n"+behind)
		serve(r, c.(*net.TCPConn), buffered.Reader)
	}
}

// open does the handshake through front, with more bytes right behind it.
func open(t testing.TB, front *httptest.Server, behind string) *rawConn {
	t.Helper()
	c := dialRaw(t, host(front), handshake+behind)
	res := c.answer(t)
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != "yes" || res.Header.Get("X-Own") != "1" ||
		!hasToken(res.Header, "Connection", "upgrade") || !hasToken(res.Header, "Upgrade", "websocket") {
		t.Fatalf("got %v", res)
	}
	return c
}

func TestWebSocketCarriesBytesBothWays(t *testing.T) {
	requests := make(chan *http.Request, 1)
	f := start(t, socketOwner(t, "welcome", func(r *http.Request, c *net.TCPConn, from *bufio.Reader) {
		requests <- r
		io.Copy(c, from)
		c.CloseWrite()
	}))
	c := open(t, f.front, "early")
	want := "welcomeearly"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	r := wait(t, requests)
	if r.RequestURI != "/hub?id=1" || r.Host != "hub.example" || r.Header.Get("Origin") != "http://hub.example" ||
		r.Header.Get("Sec-WebSocket-Key") == "" || r.RemoteAddr != c.LocalAddr().String() {
		t.Errorf("got %v", r)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		c.Write(sent)
		c.Conn.(*net.TCPConn).CloseWrite()
	}()
	all, err := io.ReadAll(c) // the half that is still open brings everything back
	if err != nil || !bytes.Equal(all, sent) {
		t.Errorf("got %d bytes, %v, want %d", len(all), err, len(sent))
	}
	f.sender.Close()
	if s := f.sender.Stats(); s != (Stats{Forwarded: 1}) {
		t.Errorf("got %+v", s)
	}
}

func TestWebSocketEndsWithEitherSide(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(client *rawConn, owner *net.TCPConn)
	}{
		{"it ends with the client", func(c *rawConn, _ *net.TCPConn) { c.Close() }},
		{"it ends with a reset of the client", func(c *rawConn, _ *net.TCPConn) { reset(c.Conn.(*net.TCPConn)) }},
		{"it ends with the owner", func(_ *rawConn, o *net.TCPConn) { o.Close() }},
		{"it ends with a reset of the owner", func(_ *rawConn, o *net.TCPConn) { reset(o) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			conns, done := make(chan *net.TCPConn, 1), make(chan struct{})
			f := start(t, socketOwner(t, "", func(_ *http.Request, c *net.TCPConn, from *bufio.Reader) {
				conns <- c
				io.Copy(io.Discard, from)
				close(done)
			}))
			c := open(t, f.front, "")
			test.end(c, wait(t, conns))
			wait(t, done)
			io.Copy(io.Discard, c)
			c.Close()
			f.sender.running.Wait()
		})
	}
}

func TestWebSocketIsRefusedByTheOwner(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "No Connection with that ID", http.StatusNotFound)
	})
	c := dialRaw(t, host(f.front), handshake)
	for range 2 { // the client's connection stays usable
		res := c.answer(t)
		b, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusNotFound || err != nil || string(b) != "No Connection with that ID\n" {
			t.Errorf("got %v %q %v", res, b, err)
		}
		io.WriteString(c.Conn, strings.ReplaceAll(handshake, "\n", "\r\n"))
	}
}

func TestWebSocketClientLeavesBeforeTheAnswer(t *testing.T) {
	reached, left := make(chan struct{}), make(chan struct{})
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(left)
	})
	c := dialRaw(t, host(f.front), handshake)
	wait(t, reached)
	c.Close()
	wait(t, left)
	f.front.Close()
	if s := f.sender.Stats(); s != (Stats{}) {
		t.Errorf("got %+v", s)
	}
}

func TestCloseEndsWebSockets(t *testing.T) {
	done := make(chan struct{})
	f := start(t, socketOwner(t, "", func(_ *http.Request, c *net.TCPConn, from *bufio.Reader) {
		io.Copy(io.Discard, from)
		close(done)
	}))
	c := open(t, f.front, "")
	f.sender.Close()
	wait(t, done)
	if _, err := c.ReadByte(); err == nil {
		t.Error("the client's side is open")
	}
}

func TestHalfAWebSocketIsCutInTheEnd(t *testing.T) {
	conns, done := make(chan *net.TCPConn, 1), make(chan struct{})
	f := &fleet{sender: newForwarder(t, Options{}), receiver: newForwarder(t, Options{})}
	f.sender.linger = 20 * time.Millisecond
	f.owner = serve(t, accepting(f.receiver, socketOwner(t, "", func(_ *http.Request, c *net.TCPConn, from *bufio.Reader) {
		conns <- c
		c.CloseWrite()
		io.Copy(io.Discard, from)
		close(done)
	})))
	f.front = serve(t, forwarding(f.sender, host(f.owner)))
	c := open(t, f.front, "")
	wait(t, done) // though the client never ends its half
	if _, err := c.ReadByte(); err == nil {
		t.Error("the client got something")
	}
}

func TestWebSocketOfAStuckClientEnds(t *testing.T) {
	done := make(chan struct{})
	f := &fleet{sender: newForwarder(t, Options{}), receiver: newForwarder(t, Options{})}
	f.sender.patience = 50 * time.Millisecond
	f.owner = serve(t, accepting(f.receiver, socketOwner(t, "", func(_ *http.Request, c *net.TCPConn, _ *bufio.Reader) {
		defer close(done)
		for b := make([]byte, 1<<16); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})))
	f.front = serve(t, forwarding(f.sender, host(f.owner)))
	open(t, f.front, "")
	wait(t, done)
}

func TestWebSocketOverTLSBothHops(t *testing.T) {
	receiver := newForwarder(t, Options{})
	owner := serve(t, accepting(receiver, func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Scheme: "+r.Header.Get("X-Forwarded-Proto")+"\r\n\r\n")
		io.Copy(c, buffered)
	}), withTLS)
	sender := newForwarder(t, Options{TLSClientConfig: owner.Client().Transport.(*http.Transport).TLSClientConfig})
	front := serve(t, forwarding(sender, "https://"+host(owner)), withTLS)
	r, err := http.NewRequestWithContext(t.Context(), "GET", front.URL+"/hub?id=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	res, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("X-Scheme") != "https" {
		t.Fatalf("got %v", res)
	}
	c := res.Body.(io.ReadWriter)
	got := make([]byte, 5)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}
