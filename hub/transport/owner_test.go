package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// startFleet serves two instances that share keys and claims.
func startFleet(t testing.TB, opts Options, serve func(Conn)) (a, b *testServer) {
	t.Helper()
	keys := RandomKeys()
	opts.Keys, opts.Claims = keys, NewClaims(1000, keys.Now)
	start1 := func(name string) *testServer {
		o := opts
		o.Instance, o.Advertise = name, freeAddress(t)
		return start(t, o, serve)
	}
	return start1("a"), start1("b")
}

// at is the client with its further requests going to another instance.
func (c *restClient) at(s *testServer) *restClient { return &restClient{s, c.id, c.token} }

// TestPollingAnywhere has every request of a connection arrive at the wrong
// instance.
func TestPollingAnywhere(t *testing.T) {
	serve, conns, result := sink()
	a, b := startFleet(t, Options{}, serve)
	c := a.restClient(t)
	other := c.at(b)
	if got := other.post(t, "hand"); !got.is(200, "text/plain", "") {
		t.Fatalf("got %+v", got)
	}
	first := other.poll(t)
	if !first.is(200, "application/octet-stream", "") {
		t.Fatalf("got %+v", first)
	}
	wantPollHeaders(t, first)
	conn := wait(t, conns)
	if a.endpoint.Stats().Open != 1 || b.endpoint.Stats().Open != 0 {
		t.Error("the connection is not at its owner")
	}
	if host, _, err := net.SplitHostPort(conn.RemoteAddr()); err != nil || host != "127.0.0.1" {
		t.Errorf("got the address %q", conn.RemoteAddr())
	}
	a.endpoint.Refuse(&StatusError{Code: 503}) // draining
	b.endpoint.Refuse(&StatusError{Code: 503})
	poll := later(func() answer { return other.poll(t) })
	until(t, func() bool { return c.holder(t) != nil })
	if got := other.post(t, "shake"); got.code != 200 {
		t.Errorf("got %+v", got)
	}
	if err := conn.Send(text("hello"), soon()); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, poll); !got.is(200, "application/octet-stream", "hello") {
		t.Errorf("got %+v", got)
	}
	poll = later(func() answer { return other.poll(t) })
	until(t, func() bool { return c.holder(t) != nil })
	if got := other.delete(t); !got.is(202, "text/plain", "") {
		t.Errorf("got %+v", got)
	}
	if got := wait(t, poll); got.code != 204 {
		t.Errorf("got %+v", got)
	}
	if got := wait(t, result); string(got.data) != "handshake" || got.err != io.EOF {
		t.Errorf("got %q and %v", got.data, got.err)
	}
	a.endpoint.Refuse(nil)
	if got := other.poll(t); !got.is(404, "text/plain", textUnknownID) {
		t.Errorf("got %+v", got)
	}
}

// TestPollGoneAnywhere has a client leave its forwarded poll.
func TestPollGoneAnywhere(t *testing.T) {
	serve, conns, _ := sink()
	a, b := startFleet(t, Options{}, serve)
	c := a.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	ctx, cancel := context.WithCancel(t.Context())
	gone := later(func() answer { return b.exchange(ctx, http.MethodGet, "?id="+c.token, nil) })
	until(t, func() bool { return c.holder(t) != nil })
	cancel()
	wait(t, gone)
	until(t, func() bool { return c.holder(t) == nil })
	poll := later(func() answer { return c.at(b).poll(t) })
	until(t, func() bool { return c.holder(t) != nil })
	if err := conn.Send(text("x"), soon()); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, poll); got.body != "x" {
		t.Errorf("got %+v", got)
	}
}

func TestEventsAnywhere(t *testing.T) {
	serve, conns, result := sink()
	a, b := startFleet(t, Options{}, serve)
	c := a.restClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := c.at(b).stream(t, ctx)
	conn := wait(t, conns)
	if o.resp.Header.Get("Content-Encoding") != "identity" || o.resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %v", o.resp.Header)
	}
	for _, record := range []string{"one\x1e", strings.Repeat("x", 100_000)} {
		if err := conn.Send(text(record), soon()); err != nil {
			t.Fatal(err)
		}
		if got := o.event(t); got != record {
			t.Errorf("got %.40q", got)
		}
	}
	if resp := c.at(b).tryStream(t, t.Context()); resp.StatusCode != 409 {
		t.Errorf("second stream: got status %d", resp.StatusCode)
	}
	cancel()
	if got := wait(t, result); !errors.Is(got.err, errLeft) {
		t.Errorf("got %v", got.err)
	}
}

// TestSocketsAnywhere has plain WebSockets served where they arrive, and
// resumable ones at their owner.
func TestSocketsAnywhere(t *testing.T) {
	sides := make(chan *resumableSide, 4)
	a, b := startFleet(t, Options{AllowStatefulReconnects: true}, func(c Conn) {
		side := &resumableSide{events: make(chan string, 100)}
		side.ResumableConn, _ = c.(ResumableConn)
		sides <- side
		for {
			switch piece, err := c.Receive(); {
			case err == nil:
				side.events <- "data " + string(piece)
			case errors.Is(err, ErrDetached):
				side.events <- "detached"
			case errors.Is(err, ErrResumed):
				side.events <- "resumed"
			default:
				side.events <- "over"
				return
			}
		}
	})
	plain := a.restClient(t)
	b.open(t, "?id="+plain.token)
	wait(t, sides)
	if b.endpoint.Stats().Open != 1 {
		t.Error("a plain WebSocket is not where it arrived")
	}
	wantStatus(t, a, plain.token, 409)
	for _, s := range []*testServer{a, b} { // whose socket is elsewhere
		c := plain.at(s)
		if got := c.post(t, "x"); got.code != 405 {
			t.Errorf("POST: got %+v", got)
		}
		if got := c.poll(t); got.code != 400 {
			t.Errorf("poll: got %+v", got)
		}
		if got := c.delete(t); got.code != 400 {
			t.Errorf("DELETE: got %+v", got)
		}
	}
	n := a.negotiate(t, "?negotiateVersion=1&useStatefulReconnect=true")
	c := b.open(t, "?id="+n.ConnectionToken)
	side := wait(t, sides)
	if side.ResumableConn == nil || a.endpoint.Stats().Open != 1 {
		t.Fatal("a resumable WebSocket is not at its owner")
	}
	side.AllowResume(true)
	c.writeFrame(t, 0x81, []byte("one"))
	side.want(t, "data one")
	c.Close()
	side.want(t, "detached")
	c = b.open(t, "?id="+n.ConnectionToken)
	side.want(t, "resumed")
	side.Resume()
	if err := side.Send(text("hello"), soon()); err != nil {
		t.Fatal(err)
	}
	if got := c.readFrame(t); string(got.payload) != "hello" {
		t.Errorf("got %q", got.payload)
	}
}

// TestOwnerGone has tokens whose owner cannot be reached, or has no address.
func TestOwnerGone(t *testing.T) {
	keys := RandomKeys()
	lost := startEcho(t, Options{Keys: keys, Advertise: freeAddress(t)})
	hidden := startEcho(t, Options{Keys: keys})
	s := startEcho(t, Options{Keys: keys, AllowStatefulReconnects: true, Advertise: freeAddress(t)})
	tokens := []*restClient{lost.restClient(t).at(s), hidden.restClient(t).at(s)}
	lost.http.Close()
	for _, c := range tokens {
		for what, got := range map[string]answer{"poll": c.poll(t), "POST": c.post(t, "x"), "DELETE": c.delete(t)} {
			if !got.is(404, "text/plain", textUnknownID) {
				t.Errorf("%s: got %+v", what, got)
			}
		}
		if resp := c.tryStream(t, t.Context()); resp.StatusCode != 404 {
			t.Errorf("event stream: got status %d", resp.StatusCode)
		}
	}
	if got := s.endpoint.Stats().Refused; got[RefusedOwner] != 4 || got[RefusedUnknownID] != 4 {
		t.Errorf("got %v", got)
	}
}

// TestOwnerStartedAnew has another endpoint of the same name and address take
// the owner's place: it is not the owner, and passes nothing on to itself.
func TestOwnerStartedAnew(t *testing.T) {
	keys := RandomKeys()
	addr := freeAddress(t)
	old := startEcho(t, Options{Keys: keys, Instance: "a", Advertise: addr})
	c := old.restClient(t)
	old.http.Close()
	renewed := startEcho(t, Options{Keys: keys, Instance: "a", Advertise: addr})
	if got := c.at(renewed).poll(t); !got.is(404, "text/plain", textUnknownID) {
		t.Errorf("got %+v", got)
	}
	if got := renewed.endpoint.Stats().Refused[RefusedUnknownID]; got != 1 { // by itself, when it came back
		t.Errorf("refused %d times", got)
	}
}

// TestAuthorizeAnywhere asks both instances who comes, and only the first one
// where from.
func TestAuthorizeAnywhere(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	a, b := startFleet(t, Options{
		AllowedOrigins: []string{"https://app.example"},
		Authorize: func(r *http.Request) (context.Context, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if r.Header.Get("Authorization") != "Bearer ann" {
				return nil, errors.New("who")
			}
			return nil, nil
		},
	}, echo)
	resp := a.exchange(t.Context(), http.MethodPost, "/negotiate?negotiateVersion=1", nil, "Authorization", "Bearer ann")
	_, token, _ := strings.Cut(resp.body, `"connectionToken":"`)
	token, _, _ = strings.Cut(token, `"`)
	asked = 0
	got := b.exchange(t.Context(), http.MethodGet, "?id="+token, nil, "Authorization", "Bearer ann", "Origin", "https://app.example")
	if got.code != 200 || asked != 2 {
		t.Errorf("got %+v, asked %d times", got, asked)
	}
	h := got.header
	if len(h["Access-Control-Allow-Origin"]) != 1 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("got %v", h)
	}
	got = b.exchange(t.Context(), http.MethodGet, "?id="+token, nil, "Authorization", "Bearer ann", "Origin", "https://evil.example")
	if got.code != 403 || asked != 2 {
		t.Errorf("got %+v, asked %d times", got, asked)
	}
	if got := b.exchange(t.Context(), http.MethodGet, "?id="+token, nil); got.code != 401 || asked != 3 {
		t.Errorf("got %+v, asked %d times", got, asked)
	}
	if got := b.exchange(t.Context(), http.MethodDelete, "?id="+token, nil, "Authorization", "Bearer ann"); got.code != 202 {
		t.Errorf("got %+v", got)
	}
}

// TestForgedForward has a client that claims to be an instance.
func TestForgedForward(t *testing.T) {
	var header atomic.Pointer[http.Header]
	keys := RandomKeys()
	trap := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		header.Store(&h)
		w.WriteHeader(http.StatusTeapot)
	})
	addr := freeAddress(t)
	owner := serverAt(t, addr, trap)
	owner.Start()
	defer owner.Close()
	s := startEcho(t, Options{Keys: keys})
	gone := startEcho(t, Options{Keys: keys, Advertise: freeAddress(t)})
	k := keys.Keys()
	tok := token{until: time.Now().Add(time.Minute), id: newID(), owner: "trap", address: addr}
	tok.sign(&k[0])
	if got := s.exchange(t.Context(), http.MethodPost, "?id="+tok.text, strings.NewReader("x")); got.code != http.StatusTeapot {
		t.Fatalf("got %+v", got)
	}
	for name, values := range *header.Load() {
		if !strings.HasPrefix(name, "X-Switchboard") && !strings.HasPrefix(name, "Switchboard") {
			continue
		}
		got := gone.exchange(t.Context(), http.MethodDelete, "?id="+tok.text, nil, name, values[0]) // signed, but not for this
		if got.code != 403 {
			t.Errorf("got %+v", got)
		}
		got = gone.exchange(t.Context(), http.MethodPost, "/negotiate", nil, name, "rubbish")
		if got.code != 403 {
			t.Errorf("got %+v", got)
		}
	}
	if got := gone.endpoint.Stats().Refused[RefusedForward]; got != 2 {
		t.Errorf("refused %d", got)
	}
}

// TestARefusingInstanceFinishesWhatPasses: polls and POSTs on their way to
// another instance are waited for, and clients told to go elsewhere next.
func TestARefusingInstanceFinishesWhatPasses(t *testing.T) {
	serve, conns, _ := sink()
	a, b := startFleet(t, Options{}, serve)
	a.endpoint.forwardedPoll = 300 * time.Millisecond
	c := a.restClient(t)
	c.begin(t)
	p := wait(t, conns)
	b.endpoint.Refuse(&StatusError{Code: 503})
	got := later(func() answer { return c.at(b).poll(t) })
	until(t, func() bool { return c.holder(t) != nil })
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.endpoint.WaitPassing(short); err == nil {
		t.Error("a poll passes, and nobody waits for it")
	}
	if err := b.endpoint.WaitPassing(t.Context()); err != nil {
		t.Error(err)
	}
	if got := wait(t, got); !got.is(200, "text/plain", "") {
		t.Errorf("got %+v, want the end of the poll", got)
	}
	later := later(func() answer { return c.poll(t) }) // the connection goes on
	until(t, func() bool { return c.holder(t) != nil })
	if err := p.Send(text("on"), soon()); err != nil {
		t.Error(err)
	}
	if got := wait(t, later); got.body != "on" {
		t.Errorf("got %+v", got)
	}
	p.CloseNow()
}
