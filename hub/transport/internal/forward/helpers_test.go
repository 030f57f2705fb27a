package forward

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// key returns a key made of one byte.
func key(b byte) (k [32]byte) {
	for i := range k {
		k[i] = b
	}
	return k
}

// keys is a source of keys: the first one signs.
func keys(all ...byte) func() ([32]byte, [][32]byte, bool) {
	var accept [][32]byte
	for _, b := range all {
		accept = append(accept, key(b))
	}
	return func() ([32]byte, [][32]byte, bool) {
		if len(accept) == 0 {
			return [32]byte{}, nil, false
		}
		return accept[0], accept, true
	}
}

// newForwarder returns a Forwarder that lasts as long as the test.
func newForwarder(t testing.TB, o Options) *Forwarder {
	t.Helper()
	if o.Keys == nil {
		o.Keys = keys(1)
	}
	f := New(o)
	t.Cleanup(f.Close)
	return f
}

// serve starts an HTTP server for the test.
func serve(t testing.TB, h http.HandlerFunc, configure ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	for _, c := range configure {
		c(s)
	}
	if s.TLS == nil && !s.EnableHTTP2 {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

// withTLS makes serve use TLS.
func withTLS(s *httptest.Server) { s.TLS = &tls.Config{} }

// withHTTP2 makes serve offer HTTP/2.
func withHTTP2(s *httptest.Server) { s.EnableHTTP2 = true }

// host is the address of a server as "host:port".
func host(s *httptest.Server) string { return s.Listener.Addr().String() }

// fleet is two instances: requests to front are served by owner.
type fleet struct {
	front, owner     *httptest.Server
	sender, receiver *Forwarder
}

// start makes two instances out of the owner's handler.
func start(t testing.TB, h http.HandlerFunc, configureFront ...func(*httptest.Server)) *fleet {
	t.Helper()
	f := &fleet{sender: newForwarder(t, Options{}), receiver: newForwarder(t, Options{})}
	f.owner = serve(t, accepting(f.receiver, h))
	f.front = serve(t, forwarding(f.sender, host(f.owner)), configureFront...)
	return f
}

// accepting is the owner's side: it serves forwarded requests only.
func accepting(f *Forwarder, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, signed, err := f.Accept(r)
		if err != nil || !signed {
			http.Error(w, "not an instance", http.StatusForbidden)
			return
		}
		h(w, out)
	}
}

// forwarding is the first instance's side. What went wrong is in a header.
func forwarding(f *Forwarder, address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := f.Forward(w, r, address)
		switch {
		case errors.Is(err, ErrUnanswered):
			w.Header().Set("Failed", "unanswered")
			w.WriteHeader(http.StatusNotFound)
		case errors.Is(err, ErrUnreachable):
			w.Header().Set("Failed", "unreachable")
			w.WriteHeader(http.StatusNotFound)
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		}
	}
}

// call does a request and returns the answer with its body.
func call(t testing.TB, c *http.Client, method, url string, body io.Reader) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// wait receives from a channel, but not forever.
func wait[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	return v
}

// rawConn is a client that writes its bytes itself.
type rawConn struct {
	net.Conn
	*bufio.Reader
}

func (c *rawConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// dialRaw connects to a server, and sends text with LF as CRLF.
func dialRaw(t testing.TB, address, text string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	return &rawConn{c, bufio.NewReader(c)}
}

// answer reads the head of an answer.
func (c *rawConn) answer(t testing.TB) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// rawOwner is an owner that does to its n-th connection, from 1, what serve
// says. It closes it afterwards.
func rawOwner(t testing.TB, serve func(n int, c *net.TCPConn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			serve(n, c.(*net.TCPConn))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}
