package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// closedAddress is an address where nobody listens: below the ports that the
// system gives out, or somebody else might have it by now.
const closedAddress = "127.0.0.1:1"

// reset ends a connection with a TCP reset.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// readHead reads a request's head.
func readHead(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		if line, err := r.ReadString('\n'); err != nil || line == "\r\n" {
			return
		}
	}
}

func TestLostOwner(t *testing.T) {
	const plain, upgrade = "", "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Version: 13\n"
	for _, test := range []struct {
		name string
		do   func(c *net.TCPConn) // nil: nobody listens
		want string
	}{
		{"it reports a refused connection", nil, "unreachable"},
		{"it reports a connection reset at once", reset, "unanswered"},
		{"it reports a connection reset after the request", func(c *net.TCPConn) { readHead(c); reset(c) }, "unanswered"},
		{"it reports a connection closed after the request", func(c *net.TCPConn) { readHead(c) }, "unanswered"},
		{"it reports a head cut short", func(c *net.TCPConn) { readHead(c); io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-") }, "unanswered"},
		{"it reports what is no HTTP", func(c *net.TCPConn) { readHead(c); io.WriteString(c, "hello, this is no HTTP\r\n\r\n") }, "unanswered"},
		{"it reports a head without end", func(c *net.TCPConn) {
			readHead(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nA: ")
			for line := strings.Repeat("a", 1<<16); ; {
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
			}
		}, "unanswered"},
		{"it reports a switch to something else", func(c *net.TCPConn) {
			readHead(c)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n")
			io.Copy(io.Discard, c)
		}, "unanswered"},
	} {
		for _, kind := range []struct{ name, method, head string }{
			{"poll", "GET", plain}, {"POST", "POST", "Content-Length: 1\n"}, {"WebSocket", "GET", upgrade},
		} {
			t.Run(test.name+" of a "+kind.name, func(t *testing.T) {
				var asked atomic.Int64
				address := closedAddress
				if test.do != nil {
					address = rawOwner(t, func(_ int, c *net.TCPConn) { asked.Add(1); test.do(c) })
				}
				f := newForwarder(t, Options{})
				front := serve(t, forwarding(f, address))
				body := ""
				if kind.method == "POST" {
					body = "x"
				}
				res := dialRaw(t, host(front), kind.method+" /hub?id=1 HTTP/1.1\nHost: a\n"+kind.head+"\n"+body).answer(t)
				got := res.Header.Get("Failed")
				// A reset may come before or after the request was written.
				if res.StatusCode != http.StatusNotFound || got != test.want && !(got == "unreachable" && strings.Contains(test.name, "at once")) {
					t.Errorf("got %d %q, want 404 %q", res.StatusCode, got, test.want)
				}
				if n := asked.Load(); n > 1 {
					t.Errorf("the owner was asked %d times", n)
				}
				if s := f.Stats(); s.Unreachable+s.Unanswered != 1 || s.Forwarded != 0 {
					t.Errorf("got %+v", s)
				}
			})
		}
	}
}

func TestAnswerBreaksOff(t *testing.T) {
	for _, test := range []struct{ name, answer string }{
		{"it aborts a body of known length", "Content-Length: 100\r\n\r\nhello"},
		{"it aborts a stream", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	} {
		for _, configure := range []func(*httptest.Server){func(*httptest.Server) {}, withHTTP2} {
			t.Run(test.name, func(t *testing.T) {
				kill := make(chan struct{})
				address := rawOwner(t, func(_ int, c *net.TCPConn) {
					readHead(c)
					io.WriteString(c, "HTTP/1.1 200 OK\r\n"+test.answer)
					<-kill
				})
				f := newForwarder(t, Options{})
				front := serve(t, forwarding(f, address), configure)
				res, err := front.Client().Get(front.URL + "/hub?id=1")
				if err != nil {
					close(kill)
					t.Fatal(err)
				}
				defer res.Body.Close()
				b := make([]byte, 5)
				_, err = io.ReadFull(res.Body, b)
				close(kill)
				if err != nil || string(b) != "hello" {
					t.Fatalf("got %q, %v", b, err)
				}
				if _, err := io.ReadAll(res.Body); err == nil {
					t.Error("the answer ended as if it were whole")
				}
				if s := f.Stats(); s.Forwarded != 1 || s.Aborted != 1 {
					t.Errorf("got %+v", s)
				}
			})
		}
	}
}

func TestLeavingClientCancels(t *testing.T) {
	for _, kind := range []string{"GET / HTTP/1.1\nHost: a\n\n", "POST / HTTP/1.1\nHost: a\nContent-Length: 5\n\nhel", "POST / HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello"} {
		reached, left := make(chan struct{}), make(chan struct{})
		f := start(t, func(w http.ResponseWriter, r *http.Request) {
			close(reached)
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			close(left)
		})
		c := dialRaw(t, host(f.front), kind)
		wait(t, reached)
		c.Close()
		wait(t, left)
		f.front.Close()
		if s := f.sender.Stats(); s != (Stats{}) {
			t.Errorf("%q: got %+v", kind, s)
		}
	}
}

func TestLostOwnerOfASlowBody(t *testing.T) {
	address := rawOwner(t, func(_ int, c *net.TCPConn) { readHead(c) })
	f := newForwarder(t, Options{})
	front := serve(t, forwarding(f, address))
	// The client sends nothing more, and is answered all the same.
	res := dialRaw(t, host(front), "POST /hub?id=1 HTTP/1.1\nHost: a\nContent-Length: 100000\n\nx").answer(t)
	if res.StatusCode != http.StatusNotFound || res.Header.Get("Failed") != "unanswered" || !res.Close {
		t.Errorf("got %v", res)
	}
	if s := f.Stats(); s != (Stats{Unanswered: 1}) {
		t.Errorf("got %+v", s)
	}
}

func TestEarlyAnswerToASlowBody(t *testing.T) {
	address := rawOwner(t, func(_ int, c *net.TCPConn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, c)
	})
	front := serve(t, forwarding(newForwarder(t, Options{}), address))
	c := dialRaw(t, host(front), "POST /hub?id=1 HTTP/1.1\nHost: a\nContent-Length: 100000\n\nx")
	res := c.answer(t)
	b := make([]byte, 2)
	if _, err := io.ReadFull(res.Body, b); err != nil || res.StatusCode != http.StatusConflict || string(b) != "no" {
		t.Errorf("got %v %q %v", res, b, err)
	}
	if !res.Close {
		t.Error("the client may send another request behind half a body")
	}
	if _, err := c.ReadByte(); err != io.EOF { // though the client sends nothing
		t.Errorf("got %v, want the end of the connection", err)
	}
}

// The owner answers one request per connection, and ends it after reading the
// second.
func TestRequestsOnAnEndingConnectionAreNotRepeated(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	read := func(c net.Conn, r *bufio.Reader) bool {
		req, err := http.ReadRequest(r)
		if err != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		seen[req.RequestURI]++
		return true
	}
	address := rawOwner(t, func(_ int, c *net.TCPConn) {
		r := bufio.NewReader(c)
		if read(c, r) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			read(c, r)
		}
	})
	f := newForwarder(t, Options{})
	front := serve(t, forwarding(f, address))
	for n, method := range []string{"GET", "GET", "GET", "POST", "DELETE", "DELETE", "GET", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprint(front.URL, "/", n), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "x") // net/http takes it as leave to repeat
		res, err := front.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got, want := res.StatusCode == http.StatusOK, n%2 == 0; got != want {
			t.Errorf("request %d: got %d %v", n, res.StatusCode, res.Header)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for uri, n := range seen {
		if n != 1 {
			t.Errorf("%s: arrived %d times", uri, n)
		}
	}
}

func TestNoDuplicatesWhileTheOwnerClosesIdleConnections(t *testing.T) {
	const clients, posts = 8, 50
	var mu sync.Mutex
	seen := map[string]int{}
	receiver, sender := newForwarder(t, Options{}), newForwarder(t, Options{})
	owner := serve(t, accepting(receiver, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.RequestURI]++
	}), func(s *httptest.Server) { s.Config.IdleTimeout = 200 * time.Microsecond })
	front := serve(t, forwarding(sender, host(owner)))
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	var lost atomic.Int64
	for c := range clients {
		group.Go(func() {
			for n := range posts {
				uri := fmt.Sprintf("/hub?id=%d&n=%d", c, n)
				var res *http.Response
				var err error
				if n%2 == 0 {
					res, err = client.Post(front.URL+uri, "text/plain", strings.NewReader("x"))
				} else {
					res, err = client.Get(front.URL + uri)
				}
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				mu.Lock()
				got := seen[uri]
				mu.Unlock()
				answered := res.StatusCode == http.StatusOK
				if !answered {
					lost.Add(1)
				}
				if got > 1 || answered && got != 1 || res.Header.Get("Failed") == "unreachable" {
					t.Errorf("%s: status %d %v, arrived %d times", uri, res.StatusCode, res.Header, got)
				}
			}
		})
	}
	group.Wait()
	if s := sender.Stats(); s.Unanswered != uint64(lost.Load()) || s.Forwarded+s.Unanswered != clients*posts {
		t.Errorf("got %+v, and %d lost", s, lost.Load())
	}
}

// fragile is a connection on which nothing can be written once it is broken,
// which shows only then.
type fragile struct {
	net.Conn
	broken *atomic.Bool
}

func (c fragile) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken")
	}
	return c.Conn.Write(p)
}

func TestUnwrittenRequestsGoOutOnAnotherConnection(t *testing.T) {
	for _, test := range []struct{ name, method, body string }{
		{"it sends a poll again", "GET", ""},
		{"it sends a DELETE again", "DELETE", ""},
		{"it sends an empty POST again", "POST", ""},
		{"it sends a POST again whose body was not read yet", "POST", "body"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var broken atomic.Bool
			bodies := make(chan string, 3)
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies <- string(b)
			})
			dial := f.sender.kept.DialContext
			f.sender.kept.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				if err == nil {
					own := c.(*ownerConn)
					own.Conn = fragile{own.Conn, &broken}
				}
				return c, err
			}
			call(t, f.front.Client(), "GET", f.front.URL+"/hub", nil)
			wait(t, bodies)
			broken.Store(true)
			res, _ := call(t, f.front.Client(), test.method, f.front.URL+"/hub", strings.NewReader(test.body))
			if res.StatusCode != http.StatusOK {
				t.Fatalf("got %d %v", res.StatusCode, res.Header)
			}
			if got := wait(t, bodies); got != test.body || len(bodies) > 0 {
				t.Errorf("got %q and %d more", got, len(bodies))
			}
		})
	}
}

func TestSlowClientLosesItsAnswer(t *testing.T) {
	left := make(chan struct{})
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		for b := make([]byte, 1<<16); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	f.sender.patience = 50 * time.Millisecond
	dialRaw(t, host(f.front), "GET /hub?id=1 HTTP/1.1\nHost: a\n\n").answer(t)
	wait(t, left)
}

func TestQuietStreamsOutliveThePatience(t *testing.T) {
	next := make(chan struct{})
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, "late")
	}, withHTTP2)
	f.sender.patience = 20 * time.Millisecond
	res, err := f.front.Client().Get(f.front.URL + "/hub?id=1")
	if err != nil {
		close(next)
		t.Fatal(err)
	}
	defer res.Body.Close()
	time.AfterFunc(10*f.sender.patience, func() { close(next) })
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "late" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestClosedForwarder(t *testing.T) {
	f := newForwarder(t, Options{})
	f.Close()
	w := httptest.NewRecorder()
	if err := f.Forward(w, arrived("GET", "/hub", "a"), "127.0.0.1:1"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	if len(w.Header()) > 0 || w.Flushed {
		t.Errorf("something was written: %v", w.Header())
	}
}

func TestFailuresAreLoggedWithoutTokens(t *testing.T) {
	var log bytes.Buffer
	f := newForwarder(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for range 3 {
		r := arrived("GET", "/hub?id=secret&access_token=secret", "a")
		r.Header.Set("Authorization", "Bearer secret")
		if err := f.Forward(httptest.NewRecorder(), r, closedAddress); !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	}
	got := log.String()
	if strings.Count(got, "level=WARN") != 1 || strings.Count(got, "level=DEBUG") != 2 || strings.Contains(got, "secret") {
		t.Errorf("got %s", got)
	}
}
