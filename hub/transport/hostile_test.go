package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestBadTokens shows every kind of bad token on every kind of request, alone
// and beside an instance that could be asked.
func TestBadTokens(t *testing.T) {
	keys := newTestKeys()
	addr := freeAddress(t)
	s := startEcho(t, Options{Keys: keys, Instance: "a", Advertise: addr, AllowStatefulReconnects: true})
	foreign := startEcho(t, Options{})
	good := s.restClient(t)
	spent := s.restClient(t)
	spent.begin(t)
	spent.delete(t)
	spent.poll(t)
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	expired := token{until: keys.now, id: newID(), owner: s.endpoint.owner}
	expired.sign(&keys.keys[0])
	loop := token{until: keys.now.Add(time.Minute), id: newID(), owner: "nobody", address: addr, flags: flagReconnect}
	loop.sign(&keys.keys[0])
	nowhere := token{until: keys.now.Add(time.Minute), id: newID(), owner: "nobody", address: "not an address", flags: flagReconnect}
	nowhere.sign(&keys.keys[0])
	for name, id := range map[string]string{
		"it knows no such token":          "x",
		"it takes no public id":           good.id,
		"it takes no token cut short":     good.token[:len(good.token)-4],
		"it takes no token with more":     good.token + "AAAA",
		"it takes no changed token":       "B" + good.token[1:],
		"it takes no token of other keys": foreign.restClient(t).token,
		"it takes no expired token":       expired.text,
		"it takes no spent token":         spent.token,
		"it is not the owner":             loop.text,
		"it finds no such owner":          nowhere.text,
		"it takes no long garbage":        strings.Repeat("A", 3000),
		"it takes no two tokens":          good.token + "&id=" + good.token,
	} {
		t.Run(name, func(t *testing.T) {
			c := &restClient{s: s, token: id}
			for what, got := range map[string]answer{"poll": c.poll(t), "POST": c.post(t, "x"), "DELETE": c.delete(t)} {
				if !got.is(404, "text/plain", textUnknownID) {
					t.Errorf("%s: got %+v", what, got)
				}
			}
			if resp := c.tryStream(t, t.Context()); resp.StatusCode != 404 || body(t, resp) != textUnknownID {
				t.Errorf("event stream: got status %d", resp.StatusCode)
			}
			if _, resp := s.tryOpen(t, "?id="+id); resp.StatusCode != 404 || body(t, resp) != textUnknownID {
				t.Errorf("WebSocket: got status %d", resp.StatusCode)
			}
		})
	}
	good.begin(t)
}

// TestKeysReplaced has the keys change under connections, which go on.
func TestKeysReplaced(t *testing.T) {
	keys := newTestKeys()
	serve, conns, result := sink()
	s := start(t, Options{Keys: keys}, serve)
	c, idle := s.restClient(t), s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	keys.keys = []Key{NewKey()}
	if got := c.post(t, "hello"); got.code != 200 {
		t.Errorf("POST: got %+v", got)
	}
	sent := make(chan error, 1)
	go func() { sent <- conn.Send(text("x"), soon()) }()
	if got := c.poll(t); got.body != "x" {
		t.Errorf("poll: got %+v", got)
	}
	if err := wait(t, sent); err != nil {
		t.Error(err)
	}
	forged := []byte(c.token)
	forged[len(forged)-5] ^= 1
	for what, token := range map[string]string{"forged": string(forged), "not connected": idle.token, "short": c.token[:40], "id": c.id} {
		if got := (&restClient{s: s, token: token}).post(t, "x"); got.code != 404 {
			t.Errorf("%s: got %+v", what, got)
		}
	}
	c.delete(t)
	if got := wait(t, result); string(got.data) != "hello" {
		t.Errorf("got %q", got.data)
	}
}

// TestConcurrentPolls has a client that sends many polls at once, as none does:
// every message is answered to one of them.
func TestConcurrentPolls(t *testing.T) {
	const polls, messages = 16, 100
	serve, conns, _ := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	sent := make(chan error, 1)
	go func() {
		for range messages {
			if err := conn.Send(text("x"), soon()); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
		conn.CloseNow()
	}()
	counts := make(chan int, polls)
	for range polls {
		go func() {
			n := 0
			for {
				got := c.poll(t)
				n += len(got.body) * btoi(got.code == 200)
				if got.code == 404 {
					counts <- n
					return
				}
				if got.code != 200 && got.code != 204 && got.code != 409 {
					t.Errorf("got %+v", got)
				}
			}
		}()
	}
	total := 0
	for range polls {
		total += wait(t, counts)
	}
	if err := wait(t, sent); err != nil || total != messages {
		t.Errorf("got %d messages, %v", total, err)
	}
}

// TestConcurrentAttach has many clients attach one token at once: one gets it.
func TestConcurrentAttach(t *testing.T) {
	for range 20 {
		s := startEcho(t, Options{PollTimeout: 20 * time.Millisecond})
		c := s.restClient(t)
		codes := make(chan int, 12)
		for range 4 {
			go func() { codes <- c.poll(t).code }()
			go func() { codes <- c.post(t, "x").code }()
			go func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp := c.tryStream(t, ctx)
				codes <- resp.StatusCode
			}()
		}
		for range cap(codes) {
			switch code := wait(t, codes); code {
			case 200, 204, 400, 404, 409:
			default:
				t.Errorf("got status %d", code)
			}
		}
		if got := s.endpoint.Stats().Accepted; got != 1 {
			t.Errorf("opened %d connections with one token", got)
		}
		s.closeAll()
	}
}

// TestNegotiateKeepsNothing has clients that negotiate and never come back.
func TestNegotiateKeepsNothing(t *testing.T) {
	clients := uint64(100_000)
	if raceEnabled {
		clients = 10_000 // each takes ten times as long
	}
	e, err := New(Options{Open: noOpen})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hub/negotiate?negotiateVersion=1", nil)
	e.ServeHTTP(discard{}, r)
	before := heap()
	for range clients {
		e.ServeHTTP(discard{}, r)
	}
	if after := heap(); after > before+256<<10 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if got := e.Stats().Negotiated; got != clients+1 {
		t.Errorf("negotiated %d times", got)
	}
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
