package transport

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// timedServer is an endpoint behind an HTTP server with timeouts.
func timedServer(t *testing.T, opts Options, secure bool, timeout time.Duration, serve func(Conn)) *testServer {
	t.Helper()
	opts.Open = func(*http.Request, Info) (func(Conn), error) { return serve, nil }
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hub", e)
	mux.Handle("/hub/negotiate", e)
	var srv *httptest.Server
	if opts.Advertise != "" {
		srv = serverAt(t, opts.Advertise, mux)
	} else {
		srv = httptest.NewUnstartedServer(mux)
	}
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = timeout, timeout
	if secure {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return &testServer{endpoint: e, http: srv, addr: srv.Listener.Addr().String()}
}

// A poll on HTTP/2 that waits for longer than http.Server.WriteTimeout.
func TestPollOnHTTP2OutlivesTheServersWriteTimeout(t *testing.T) {
	serve, conns, _ := sink()
	const timeout = 100 * time.Millisecond
	s := timedServer(t, Options{}, true, timeout, serve)
	c := s.restClient(t)
	c.begin(t)
	p := wait(t, conns)
	got := c.pollLater(t)
	<-time.After(4 * timeout)
	if err := p.Send(text("x"), soon()); err != nil {
		t.Error(err)
	}
	if got := wait(t, got); got.body != "x" {
		t.Errorf("got %+v", got)
	}
	p.CloseNow()
	s.endpoint.Wait(t.Context())
}

// The empty answer of a forwarded poll comes later than the WriteTimeout of the
// server that passes it on.
func TestForwardedEmptyPollOutlivesTheServersWriteTimeout(t *testing.T) {
	for name, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			keys := RandomKeys()
			const timeout = 100 * time.Millisecond
			serve, conns, _ := sink()
			a := start(t, Options{Keys: keys, Advertise: freeAddress(t), PollTimeout: 4 * timeout}, serve)
			b := timedServer(t, Options{Keys: keys}, secure, timeout, serve)
			c := a.restClient(t)
			c.begin(t)
			p := wait(t, conns)
			if got := c.at(b).poll(t); got.code != 200 {
				t.Errorf("after PollTimeout: got %+v, want 200 empty", got)
			}
			got := later(func() answer { return c.at(b).poll(t) })
			until(t, func() bool { return c.holder(t) != nil })
			<-time.After(2 * timeout)
			p.CloseNow()
			if got := wait(t, got); got.code != 204 {
				t.Errorf("at the end: got %+v, want 204", got)
			}
			b.endpoint.Close()
		})
	}
}

// A POST that has to wait for room for longer than WriteTimeout.
func TestLatePostOutlivesTheServersWriteTimeout(t *testing.T) {
	const timeout = 100 * time.Millisecond
	more := make(chan struct{})
	s := timedServer(t, Options{}, false, timeout, func(c Conn) {
		for {
			<-more
			if _, err := c.Receive(); err != nil {
				return
			}
		}
	})
	c := s.restClient(t)
	c.begin(t)
	if got := c.post(t, strings.Repeat("x", maxBody)); got.code != 200 {
		t.Fatal(got)
	}
	got := later(func() answer { return c.post(t, "y") })
	<-time.After(3 * timeout)
	close(more)
	if got := wait(t, got); got.code != 200 {
		t.Errorf("got %+v, want 200", got)
	}
	c.delete(t)
	s.endpoint.Wait(t.Context())
}

// Whoever learns the id of a connection must not be able to act as it.
func TestPublicIDOfVersion0OpensNothing(t *testing.T) {
	ids := make(chan string, 10)
	s := start(t, Options{}, func(c Conn) {
		ids <- c.ID() // what the hub shows to others
		for {
			piece, err := c.Receive()
			if err != nil {
				ids <- "ended: " + err.Error()
				return
			}
			ids <- "got " + string(piece)
		}
	})
	for _, kind := range []Kind{LongPolling, ServerSentEvents} {
		n := s.negotiate(t, "") // version 0
		c := &restClient{s, n.ConnectionID, n.ConnectionID}
		if kind == LongPolling {
			c.begin(t)
		} else {
			c.stream(t, t.Context())
		}
		shown := wait(t, ids)
		other := &restClient{s, shown, shown}
		if got := other.post(t, "forged"); got.code != 404 {
			t.Errorf("%s: POST by the shown id: got %+v, want 404; the victim's stream: %q", kind, got, wait(t, ids))
		}
		if kind == LongPolling {
			if got := other.delete(t); got.code != 404 {
				t.Errorf("%s: DELETE by the shown id: got %+v, want 404; the victim: %q", kind, got, wait(t, ids))
			}
		}
	}
}
