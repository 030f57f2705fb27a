package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const handshakeRequest = `{"protocol":"json","version":1}` + "\x1e"

// negotiate returns the address of a new connection.
func (h *hosted) negotiate(t testing.TB, hub string) string {
	t.Helper()
	var negotiated struct{ ConnectionToken string }
	got := h.ask(t, "POST", h.http+hub+"/negotiate?negotiateVersion=1")
	if err := json.Unmarshal([]byte(got.text), &negotiated); err != nil || negotiated.ConnectionToken == "" {
		t.Fatalf("negotiate: %q, %v", got.text, err)
	}
	return h.http + hub + "?id=" + negotiated.ConnectionToken
}

// post sends bytes on a connection.
func (h *hosted) post(t testing.TB, url, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("POST: got %d, want 200", response.StatusCode)
	}
}

// webSocket opens a WebSocket.
func (h *hosted) webSocket(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{HTTPClient: &http.Client{Transport: h.client.Transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t testing.TB, c *websocket.Conn) (websocket.MessageType, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kind, data, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return kind, string(data)
}

func write(t testing.TB, c *websocket.Conn, kind websocket.MessageType, text string) {
	t.Helper()
	if err := c.Write(t.Context(), kind, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// short are connections that come and go.
func short(h *hosted) map[string]func(testing.TB) {
	return map[string]func(testing.TB){
		"a hub over WebSockets": func(t testing.TB) {
			c := h.webSocket(t, h.negotiate(t, "/testhub"))
			defer c.CloseNow()
			write(t, c, websocket.MessageText, handshakeRequest)
			if _, text := read(t, c); text != "{}\x1e" {
				t.Fatalf("handshake: got %q", text)
			}
		},
		"a hub over long polling": func(t testing.TB) {
			url := h.negotiate(t, "/testhub")
			if got := h.ask(t, "GET", url); got.StatusCode != 200 || got.text != "" {
				t.Fatalf("first poll: got %d %q", got.StatusCode, got.text)
			}
			h.post(t, url, handshakeRequest)
			if got := h.ask(t, "GET", url); got.text != "{}\x1e" {
				t.Fatalf("second poll: got %d %q", got.StatusCode, got.text)
			}
			if got := h.ask(t, "DELETE", url); got.StatusCode != http.StatusAccepted {
				t.Fatalf("DELETE: got %d", got.StatusCode)
			}
		},
		"a hub over an event stream": func(t testing.TB) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			url := h.negotiate(t, "/testhub")
			r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", "text/event-stream")
			response, err := h.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			h.post(t, url, handshakeRequest)
			var got strings.Builder
			for buf := make([]byte, 64); !strings.Contains(got.String(), "{}\x1e"); {
				n, err := response.Body.Read(buf)
				got.Write(buf[:n])
				if err != nil {
					t.Fatalf("event stream: %v after %q", err, got.String())
				}
			}
		},
		"raw echo": func(t testing.TB) {
			c := h.webSocket(t, h.http+"/echo")
			defer c.CloseNow()
			write(t, c, websocket.MessageBinary, "✓")
			if kind, text := read(t, c); kind != websocket.MessageText || text != "✓" {
				t.Fatalf("got %v %q", kind, text)
			}
		},
		"a hub that fails": func(t testing.TB) {
			c := h.webSocket(t, h.http+"/uncreatable")
			defer c.CloseNow()
			write(t, c, websocket.MessageText, handshakeRequest)
			var all string
			for !strings.Contains(all, `"type":7`) {
				_, text := read(t, c)
				all += text
			}
			if !strings.Contains(all, "InvalidOperationException: no such luck") {
				t.Fatalf("got %q", all)
			}
		},
		"a negotiate that leads nowhere": func(t testing.TB) { h.negotiate(t, "/default") },
	}
}

func TestShortConnectionsLeaveNothingBehind(t *testing.T) {
	h := start(t, "-uncreatable-message", "no such luck")
	const rounds = 60
	for name, connect := range short(h) {
		t.Run(name, func(t *testing.T) {
			connect(t) // what is made once is made
			before := h.goroutines(-1, quiet)
			for range rounds {
				connect(t)
			}
			if after := h.goroutines(before, patience); after > before {
				t.Errorf("%d goroutines after %d connections, %d before", after, rounds, before)
			}
		})
	}
}

// quiet is how long the number of goroutines is watched for its least.
const quiet = 300 * time.Millisecond

// goroutines is the least number of goroutines seen until it is down to limit
// or the time is up.
func (h *hosted) goroutines(limit int, within time.Duration) int {
	h.client.CloseIdleConnections()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	least := runtime.NumGoroutine()
	for least > limit {
		select {
		case <-tick.C:
			least = min(least, runtime.NumGoroutine())
		case <-deadline.C:
			return least
		}
	}
	return least
}

func TestStopIsPolite(t *testing.T) {
	h := start(t)
	c := h.webSocket(t, h.http+"/testhub")
	defer c.CloseNow()
	write(t, c, websocket.MessageText, handshakeRequest)
	read(t, c)
	raw := h.webSocket(t, h.http+"/echo")
	defer raw.CloseNow()
	write(t, raw, websocket.MessageText, "x")
	read(t, raw)
	polled := h.negotiate(t, "/testhub")
	h.ask(t, "GET", polled)
	h.post(t, polled, handshakeRequest)
	h.ask(t, "GET", polled)

	code := make(chan int, 1)
	go func() { code <- h.stop() }() // joined below
	if _, text := read(t, c); text != `{"type":7,"allowReconnect":true}`+"\x1e" {
		t.Errorf("got %q, want a Close that allows reconnecting", text)
	}
	c.CloseNow()
	if _, _, err := raw.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("raw echo: got %v, want status 1001", err)
	}
	if got := <-code; got != exitClean {
		t.Errorf("exit code: got %d, want %d", got, exitClean)
	}
}
