package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// endings are the ways in which a server ends a connection, and what the
// JavaScript client makes of them.
var endings = []struct {
	name       string
	end        func(p *peer)
	err        string // part of the text; empty for none
	reconnects bool   // if there is a policy
	sayClose   bool   // the client sends a Close record
}{
	{"a Close record", func(p *peer) { p.send(`{"type":7}`) }, "", false, true},
	{"a Close record with an error", func(p *peer) { p.send(`{"type":7,"error":"bad"}`) }, "server returned an error on close: bad", false, true},
	{"a Close record that refuses reconnects", func(p *peer) { p.send(`{"type":7,"allowReconnect":false}`) }, "", false, true},
	{"a Close record that allows reconnects", func(p *peer) { p.send(`{"type":7,"allowReconnect":true}`) }, "", true, false},
	{"a Close record with an error that allows reconnects", func(p *peer) { p.send(`{"type":7,"error":"bad","allowReconnect":true}`) }, "close: bad", true, false},
	{"a normal WebSocket close", func(p *peer) { p.ws.Close(websocket.StatusNormalClosure, "") }, "", true, false},
	{"another WebSocket close", func(p *peer) { p.ws.Close(websocket.StatusGoingAway, "restart") }, "StatusGoingAway", true, false},
	{"a WebSocket close without status", func(p *peer) { p.ws.Close(websocket.StatusNoStatusRcvd, "") }, "StatusNoStatusRcvd", true, false},
	{"a broken connection", func(p *peer) { p.ws.CloseNow() }, "client: read", true, false},
	{"a malformed record", func(p *peer) { p.send(`{"type":1}`) }, "Missing required property", true, false},
	{"a record above the limit", func(p *peer) { p.send(strings.Repeat("x", 2000)) }, "maximum message size", true, false},
}

func TestEndWithoutPolicy(t *testing.T) {
	for _, e := range endings {
		t.Run("it closes after "+e.name, func(t *testing.T) {
			closes := make(chan bool, 1)
			s := newServer(t, func(p *peer) {
				p.send(`{"type":1,"target":"last","arguments":[]}`)
				e.end(p)
				closes <- sawClose(p)
			})
			c := s.client(Options{MaximumReceiveMessageSize: 1000})
			closed := make(chan error, 1)
			handled := false
			c.On("last", func(Args) { handled = true })
			c.OnReconnecting(func(error) { t.Error("OnReconnecting ran") })
			c.OnClosed(func(err error) {
				if !handled || c.State() != Disconnected || c.ConnectionID() != "" {
					t.Errorf("handled %v, state %v, id %q", handled, c.State(), c.ConnectionID())
				}
				closed <- err
			})
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			requireText(t, <-closed, e.err)
			if got := <-closes; got != e.sayClose {
				t.Errorf("Close record sent: %v, want %v", got, e.sayClose)
			}
		})
	}
}

func TestEndWithPolicy(t *testing.T) {
	for _, e := range endings {
		name := "it stays away after "
		if e.reconnects {
			name = "it reconnects after "
		}
		t.Run(name+e.name, func(t *testing.T) {
			s := newServer(t, func(p *peer) { e.end(p); p.drain() }, echo)
			c := s.client(Options{MaximumReceiveMessageSize: 1000, Reconnect: RetryDelays(0)})
			events := make(chan string, 10)
			c.OnReconnecting(func(err error) { requireText(t, err, e.err); events <- "reconnecting " + c.State().String() })
			c.OnReconnected(func(id string) { events <- "reconnected " + id + " " + c.ConnectionID() })
			c.OnClosed(func(err error) { events <- "closed"; requireText(t, err, e.err) })
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !e.reconnects {
				if got := <-events; got != "closed" {
					t.Errorf("got %q", got)
				}
				return
			}
			if got := <-events; !strings.HasPrefix(got, "reconnecting ") {
				t.Errorf("got %q", got)
			}
			if got := <-events; got != "reconnected c2 c2" {
				t.Errorf("got %q", got)
			}
			if got, err := Invoke[int](t.Context(), c, "Echo", 3); err != nil || got != 3 {
				t.Errorf("got %d, %v", got, err)
			}
			c.OnClosed(func(error) {}) // replaced slices do no harm
			e.err = ""                 // Stop is no error
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if got := <-events; got != "closed" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// sawClose reads to the end and tells whether a Close record came.
func sawClose(p *peer) bool {
	seen := false
	for {
		m, ok := p.read()
		if !ok {
			return seen
		}
		seen = seen || m.Type == protocol.Close
	}
}

func requireText(t *testing.T, err error, part string) {
	t.Helper()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("got error %v, want %q", err, part)
	}
}

func TestStop(t *testing.T) {
	t.Run("it writes out what was sent, then a Close record and a close frame", func(t *testing.T) {
		const sends = 100
		got := make(chan int, 1)
		s := newServer(t, func(p *peer) {
			for range sends {
				p.expect(protocol.Invocation)
			}
			p.expect(protocol.Close)
			_, _, err := p.ws.Read(context.Background())
			got <- int(websocket.CloseStatus(err))
		})
		c := s.started(Options{})
		for i := range sends {
			if err := c.Send(t.Context(), "Log", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if status := <-got; status != 1000 {
			t.Errorf("close status %d", status)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
	})
	t.Run("it drops what waits for handlers and waits for the one that runs", func(t *testing.T) {
		c := newServer(t, func(p *peer) {
			p.send(`{"type":1,"target":"x","arguments":[]}`, `{"type":1,"target":"x","arguments":[]}`)
			p.drain()
		}).client(Options{})
		running, release := make(chan struct{}), make(chan struct{})
		handled := 0
		c.On("x", func(Args) { handled++; close(running); <-release })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-running
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("while a handler runs: got %v", err)
		}
		close(release)
		if err := c.Stop(t.Context()); err != nil || handled != 1 {
			t.Errorf("got %v, %d handled", err, handled)
		}
	})
	t.Run("it stops a client that was never started", func(t *testing.T) {
		if err := newServer(t).client(Options{}).Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("it can be started again", func(t *testing.T) {
		c := newServer(t, echo).client(Options{})
		for i := range 3 {
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, err := Invoke[int](t.Context(), c, "Echo", i); err != nil || got != i {
				t.Errorf("got %d, %v", got, err)
			}
			if err := c.Stop(t.Context()); err != nil || c.State() != Disconnected {
				t.Errorf("got %v, state %v", err, c.State())
			}
		}
	})
	t.Run("it can be started again in OnClosed", func(t *testing.T) {
		c := newServer(t, func(p *peer) { p.ws.Close(websocket.StatusNormalClosure, "") }, echo).client(Options{})
		again := make(chan error, 1)
		var once sync.Once // Stop closes too
		c.OnClosed(func(error) { once.Do(func() { again <- c.Start(context.Background()) }) })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		if got, err := Invoke[int](t.Context(), c, "Echo", 1); err != nil || got != 1 {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

// TestStopOfSilentServers stops clients whose servers do not cooperate.
func TestStopOfSilentServers(t *testing.T) {
	for _, c := range []struct {
		finish  string
		timeout time.Duration // of Stop's context; 0 for none
		want    time.Duration
	}{
		{"gives up on a close frame after 5 s", 0, closeTimeout},
		{"gives up at the end of its context", time.Second, time.Second},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				client := newServer(t, func(*peer) { <-release }).started(Options{ServerTimeout: time.Minute})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				begin := time.Now()
				err := client.Stop(ctx)
				if took := time.Since(begin); took != c.want {
					t.Errorf("took %v want %v", took, c.want)
				}
				if c.timeout == 0 && err != nil || c.timeout != 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if err := client.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
