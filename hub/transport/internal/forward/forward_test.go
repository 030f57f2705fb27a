package forward

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestForwardKeepsTheRequest(t *testing.T) {
	for _, test := range []struct {
		name, method, uri, body string
	}{
		{"it forwards a poll", "GET", "/hub?id=abc&_=1", ""},
		{"it forwards a POST", "POST", "/hub?id=abc", "{\"type\":6}\x1e"},
		{"it forwards an empty POST", "POST", "/hub?id=abc", ""},
		{"it forwards a large POST", "POST", "/hub?id=abc", strings.Repeat("0123456789", 100_000)},
		{"it forwards a DELETE", "DELETE", "/hub?id=abc", ""},
		{"it keeps the spelling of the path", "POST", "/a%2Fb/../c//d?x=%zz;y&&=+", "x"},
		{"it keeps a lone question mark", "GET", "/hub?", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan *http.Request, 1)
			bodies := make(chan string, 1)
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies <- string(b)
				got <- r
				w.Header().Set("X-Own", "1")
				w.WriteHeader(http.StatusAccepted)
			})
			c := dialRaw(t, host(f.front), fmt.Sprintf("%s %s HTTP/1.1\nHost: hub.example:81\nAuthorization: Bearer x\nCookie: a=b; c=d\nOrigin: http://o\n"+
				"Connection: x-secret\nX-Secret: 1\nTe: gzip\nX-Switchboard-Forward: forged\nX-Forwarded-For: 9.9.9.9\nX-Forwarded-Proto: https\nContent-Length: %d\n\n%s",
				test.method, test.uri, len(test.body), test.body))
			res := c.answer(t)
			if res.StatusCode != http.StatusAccepted || res.Header.Get("X-Own") != "1" {
				t.Fatalf("got %v", res)
			}
			r := wait(t, got)
			if body := wait(t, bodies); body != test.body {
				t.Errorf("got a body of %d bytes, want %d", len(body), len(test.body))
			}
			if r.Method != test.method || r.RequestURI != test.uri || r.Host != "hub.example:81" || r.RemoteAddr != c.LocalAddr().String() || r.Proto != "HTTP/1.1" {
				t.Errorf("got %s %s of %s from %s", r.Method, r.RequestURI, r.Host, r.RemoteAddr)
			}
			want := http.Header{"Authorization": {"Bearer x"}, "Cookie": {"a=b; c=d"}, "Origin": {"http://o"}, "X-Forwarded-For": {"9.9.9.9"}, "X-Forwarded-Proto": {"https"}}
			r.Header.Del("Content-Length")
			if !reflect.DeepEqual(r.Header, want) {
				t.Errorf("got headers %v, want %v", r.Header, want)
			}
			if s := f.sender.Stats(); s != (Stats{Forwarded: 1}) {
				t.Errorf("got %+v", s)
			}
			if s := f.receiver.Stats(); s != (Stats{Accepted: 1}) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestForwardRefuses(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) { t.Error("the owner was asked") })
	for _, test := range []struct{ name, request string }{
		{"it refuses an absolute request line", "GET http://evil.example/hub HTTP/1.1\nHost: a\n\n"},
		{"it refuses two slashes in front", "GET //evil.example/hub HTTP/1.1\nHost: a\n\n"},
		{"it refuses an asterisk", "GET * HTTP/1.1\nHost: a\n\n"},
		{"it refuses CONNECT", "CONNECT a:80 HTTP/1.1\nHost: a:80\n\n"},
		{"it refuses a request without Host", "GET /hub HTTP/1.0\n\n"},
		{"it refuses an upgrade with a body", "GET /hub HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 1\n\nx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if res := dialRaw(t, host(f.front), test.request).answer(t); res.StatusCode != http.StatusBadRequest {
				t.Errorf("got %d, want 400", res.StatusCode)
			}
		})
	}
}

func TestForwardNeverTwice(t *testing.T) {
	f := newForwarder(t, Options{})
	loop := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out, _, err := f.Accept(r)
		if err != nil {
			t.Error(err)
			return
		}
		forwarding(f, r.Host)(w, out)
	})
	res, _ := call(t, loop.Client(), "GET", loop.URL+"/hub", nil)
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d, want 400 from the second hop", res.StatusCode)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		address, scheme, host string
	}{
		{"10.1.2.3:8080", "http", "10.1.2.3:8080"},
		{"node-1.local:80", "http", "node-1.local:80"},
		{"http://[fd00::1]:80", "http", "[fd00::1]:80"},
		{"https://node:443", "https", "node:443"},
		{"", "", ""}, {"node", "", ""}, {":80", "", ""}, {"node:0", "", ""}, {"node:65536", "", ""}, {"node:http", "", ""},
		{"ftp://node:80", "", ""}, {"https://node:443/", "", ""}, {"u@node:80", "", ""}, {"node:80#", "", ""}, {"no de:80", "", ""},
		{"[fe80::1%eth0]:80", "", ""}, {"http://http://a:80", "", ""}, {strings.Repeat("a", 300) + ":80", "", ""},
	} {
		scheme, host, err := parseAddress(test.address)
		if (err != nil) != (test.host == "") || err == nil && (scheme != test.scheme || host != test.host) {
			t.Errorf("%q: got %q %q %v", test.address, scheme, host, err)
		}
	}
}

func TestForwardAnswersFromBothInstances(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Vary"] = []string{"Origin", "Accept"}
		w.Header().Set("Access-Control-Allow-Origin", "http://owner")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		io.WriteString(w, "hello")
	})
	front := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Vary"] = []string{"Cookie", "Origin"}
		w.Header().Set("Access-Control-Allow-Origin", "http://front")
		forwarding(f.sender, host(f.owner))(w, r)
	})
	res, body := call(t, front.Client(), "GET", front.URL+"/hub", nil)
	if got := strings.Join(res.Header["Vary"], ","); got != "Cookie,Origin,Accept" {
		t.Errorf("got Vary %s", got)
	}
	if got := res.Header["Access-Control-Allow-Origin"]; len(got) != 1 || got[0] != "http://owner" {
		t.Errorf("got Access-Control-Allow-Origin %v", got)
	}
	if _, ok := res.Header["X-Hop"]; ok || body != "hello" {
		t.Errorf("got %v and %q", res.Header, body)
	}
}

func TestEventStream(t *testing.T) {
	for _, test := range []struct {
		name      string
		configure func(*httptest.Server)
	}{
		{"it streams over HTTP/1.1", func(*httptest.Server) {}},
		{"it streams over TLS", withTLS},
		{"it streams over HTTP/2", withHTTP2},
	} {
		t.Run(test.name, func(t *testing.T) {
			next, left := make(chan string), make(chan struct{})
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(left)
				w.Header().Set("Content-Type", "text/event-stream")
				w.(http.Flusher).Flush()
				for {
					select {
					case s := <-next:
						io.WriteString(w, s)
						w.(http.Flusher).Flush()
					case <-r.Context().Done():
						return
					}
				}
			}, test.configure)
			r, err := http.NewRequestWithContext(t.Context(), "GET", f.front.URL+"/hub?id=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := f.front.Client().Do(r) // the head comes before any byte of the body
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("got %v", res.Header)
			}
			lines := bufio.NewReader(res.Body)
			for i := range 5 {
				next <- fmt.Sprintf("data: %d\n", i)
				if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("got %q, %v", line, err)
				}
			}
			res.Body.Close()
			wait(t, left) // the client's end is the owner's
		})
	}
}

func TestHTTP2BecomesHTTP1(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Proto, " ", r.Header.Get("X-Forwarded-Proto"), " ", r.TLS == nil, " ", r.Host == r.Header.Get("Expected-Host"), " ", string(b))
	}, withHTTP2)
	r, err := http.NewRequestWithContext(t.Context(), "POST", f.front.URL+"/hub?id=1", io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Expected-Host", host(f.front))
	res, err := f.front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if got, want := string(b), "HTTP/1.1 https true true body"; err != nil || got != want || res.ProtoMajor != 2 {
		t.Errorf("got %s %q %v, want %q", res.Proto, got, err, want)
	}
}

func TestOwnerWithTLS(t *testing.T) {
	receiver := newForwarder(t, Options{})
	owner := serve(t, accepting(receiver, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"), r.TLS == nil)
	}), withTLS)
	for _, test := range []struct {
		name   string
		config *tls.Config
		want   string
	}{
		{"it refuses an unknown certificate", nil, ""},
		{"it takes a certificate that it was told of", owner.Client().Transport.(*http.Transport).TLSClientConfig, "httptrue"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sender := newForwarder(t, Options{TLSClientConfig: test.config})
			front := serve(t, forwarding(sender, "https://"+host(owner)))
			for range 2 {
				res, body := call(t, front.Client(), "GET", front.URL+"/hub", nil)
				if body != test.want || (test.want == "") != (res.Header.Get("Failed") == "unreachable") {
					t.Errorf("got %d %v %q, want %q", res.StatusCode, res.Header, body, test.want)
				}
			}
		})
	}
}

func TestManyClientsKeepTheirOrder(t *testing.T) {
	const clients, posts = 200, 5
	var mu sync.Mutex
	last := map[string]string{}
	var wrong, count atomic.Int64
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		id := r.URL.Query().Get("id")
		mu.Lock()
		defer mu.Unlock()
		last[id] += string(b)
		count.Add(1)
	})
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for n := range posts {
				res, err := client.Post(fmt.Sprint(f.front.URL, "/hub?id=", c), "text/plain", strings.NewReader(fmt.Sprint(n)))
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("got %v, %v", res, err)
					return
				}
				res.Body.Close()
			}
		})
	}
	group.Wait()
	for id, got := range last {
		if got != "01234" {
			wrong.Add(1)
			t.Errorf("%s: got %s", id, got)
		}
	}
	if count.Load() != clients*posts || len(last) != clients {
		t.Errorf("got %d posts of %d clients", count.Load(), len(last))
	}
}
