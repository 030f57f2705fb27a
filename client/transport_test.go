package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// combinations are the transports with the protocols they carry.
func combinations(t *testing.T, f func(t *testing.T, opts Options)) {
	for _, transport := range []Transport{WebSockets, ServerSentEvents, LongPolling} {
		for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
			if transport.carries(p) {
				t.Run(string(transport)+" "+p.Name(), func(t *testing.T) {
					f(t, Options{Transports: []Transport{transport}, Protocol: p})
				})
			}
		}
	}
}

// TestEveryTransport has all kinds of records go both ways.
func TestEveryTransport(t *testing.T) {
	combinations(t, func(t *testing.T, opts Options) {
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.Invocation)
			hello, _ := p.protocol.AppendInvocation(nil, "s1", "Hello", []any{"é\n\r"})
			p.writeBytes(hello)
			if got := p.expect(protocol.Completion); string(got.InvocationID) != "s1" || !got.HasValue {
				t.Errorf("got %+v", got)
			}
			result, _ := p.protocol.AppendResult(nil, string(m.InvocationID), 42)
			p.writeBytes(result)
			m = p.expect(protocol.StreamInvocation)
			items, end := p.upload(m.StreamIDs[0])
			if len(items) != 500 || end != "end" {
				t.Errorf("got %d items, %s", len(items), end)
			}
			for i := range 500 {
				record, _ := p.protocol.AppendStreamItem(nil, string(m.InvocationID), i)
				p.writeBytes(record)
			}
			p.writeBytes(p.protocol.AppendVoid(nil, string(m.InvocationID)))
			p.expect(protocol.Close)
			p.drain()
		})
		c := s.client(opts)
		OnResult(c, "Hello", func(a Args) (bool, error) {
			if v, err := Arg[string](a, 0); err != nil || v != "é\n\r" {
				t.Errorf("got %q, %v", v, err)
			}
			return true, nil
		})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Transport() != opts.Transports[0] || c.ConnectionID() != "c1" {
			t.Errorf("got %q, %q", c.Transport(), c.ConnectionID())
		}
		if v, err := Invoke[int](t.Context(), c, "Ask"); err != nil || v != 42 {
			t.Errorf("got %d, %v", v, err)
		}
		many := make([]int, 500)
		for i := range many {
			many[i] = i
		}
		if got, err := collect[int](t.Context(), c, Upload(values(many...))); err != nil || !slices.Equal(got, many) {
			t.Errorf("got %v, %v", got, err)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if c.Transport() != "" {
			t.Errorf("transport %q after Stop", c.Transport())
		}
		deletes := 0
		for _, r := range s.seen("/chat") {
			if r.Method == http.MethodDelete {
				deletes++
			}
		}
		if (deletes == 1) != (opts.Transports[0] == LongPolling) {
			t.Errorf("got %d DELETE requests", deletes)
		}
	})
}

// TestEveryRequestIsAuthorized counts tokens and looks at headers and queries.
func TestEveryRequestIsAuthorized(t *testing.T) {
	combinations(t, func(t *testing.T, opts Options) {
		s := newServer(t, echo)
		tokens := make(chan string, 1000)
		for i := range cap(tokens) {
			tokens <- fmt.Sprint("secret", i)
		}
		opts.URL = "http://hub/chat?x=a%2Bb"
		opts.Header = http.Header{"X-Tenant": {"acme"}}
		opts.AccessToken = func(context.Context) (string, error) { return <-tokens, nil }
		c := s.started(opts)
		if opts.Protocol.Name() == "json" {
			for i := range 3 {
				if _, err := Invoke[int](t.Context(), c, "Echo", i); err != nil {
					t.Error(err)
				}
			}
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		seen := map[string]bool{}
		for _, r := range append(s.seen("/chat"), s.seen("/negotiate")...) {
			h := r.Header
			token := h.Get("Authorization")
			if !strings.HasPrefix(token, "Bearer secret") || seen[token] || h.Get("X-Tenant") != "acme" || h.Get("X-Requested-With") != "XMLHttpRequest" {
				t.Errorf("%s %s: header %v", r.Method, r.URL, h)
			}
			seen[token] = true
			if !strings.HasPrefix(r.URL.RawQuery, "x=a%2Bb") || strings.Contains(r.URL.RawQuery, "secret") {
				t.Errorf("%s %s", r.Method, r.URL)
			}
		}
	})
}

// TestFallback: which transports are tried, and in which order.
func TestFallback(t *testing.T) {
	for _, c := range []struct {
		finish string
		opts   Options
		refuse []Transport
		want   []Transport // tried
	}{
		{"takes the first", Options{}, nil, []Transport{WebSockets}},
		{"goes on to event streams", Options{}, []Transport{WebSockets}, []Transport{WebSockets, ServerSentEvents}},
		{"goes on to long polling", Options{}, []Transport{WebSockets, ServerSentEvents}, []Transport{WebSockets, ServerSentEvents, LongPolling}},
		{"never takes event streams for MessagePack", Options{Protocol: protocol.MessagePack{}}, []Transport{WebSockets}, []Transport{WebSockets, LongPolling}},
		{"keeps to the order of the options", Options{Transports: []Transport{LongPolling, WebSockets}}, nil, []Transport{LongPolling}},
		{"goes on in the order of the options", Options{Transports: []Transport{LongPolling, WebSockets}}, []Transport{LongPolling}, []Transport{LongPolling, WebSockets}},
		{"fails when none opens", Options{}, []Transport{WebSockets, ServerSentEvents, LongPolling}, []Transport{WebSockets, ServerSentEvents, LongPolling}},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			s := newServer(t)
			var tried []Transport
			s.upgrade = func(w http.ResponseWriter, r *http.Request) bool {
				kind := LongPolling
				switch {
				case r.Method != http.MethodGet:
					return true
				case r.Header.Get("Upgrade") != "":
					kind = WebSockets
				case r.Header.Get("Accept") == eventMedia:
					kind = ServerSentEvents
				}
				s.mu.Lock()
				if !slices.Contains(tried, kind) {
					tried = append(tried, kind)
				}
				s.mu.Unlock()
				if slices.Contains(c.refuse, kind) {
					w.WriteHeader(http.StatusTeapot)
					return false
				}
				return true
			}
			client := s.client(c.opts)
			err := client.Start(t.Context())
			if len(c.refuse) == 3 {
				status, ok := errors.AsType[*StatusError](err)
				if !ok || *status != (StatusError{"connect", http.StatusTeapot}) {
					t.Errorf("got %v", err)
				}
			} else if last := c.want[len(c.want)-1]; err != nil || client.Transport() != last {
				t.Errorf("got %q, %v want %q", client.Transport(), err, last)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(tried, c.want) || s.number != len(c.want) {
				t.Errorf("tried %v with %d negotiations want %v", tried, s.number, c.want)
			}
		})
	}
}

// TestServerEndsPlainConnection: what the end of an event stream or a 204
// means, and what other statuses do.
func TestServerEndsPlainConnection(t *testing.T) {
	for _, transport := range []Transport{ServerSentEvents, LongPolling} {
		for _, c := range []struct {
			finish string
			script script
			status int // of GETs once something was posted
			want   string
		}{
			{"closes without error when the server ends it", func(p *peer) { p.send(`{"type":1,"target":"last","arguments":[]}`) }, 0, ""},
			{"closes with the server's reason", func(p *peer) { p.send(`{"type":7,"error":"bad"}`); p.drain() }, 0, "close: bad"},
			{"closes with an error for a status", func(p *peer) { p.drain() }, 404, "poll: status 404"},
		} {
			if c.status != 0 && transport != LongPolling {
				continue
			}
			t.Run("it "+c.finish+" on "+string(transport), func(t *testing.T) {
				s := newServer(t, c.script)
				polls := 0
				s.upgrade = func(w http.ResponseWriter, r *http.Request) bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					if r.Method == http.MethodGet {
						polls++
					}
					if c.status != 0 && polls > 2 {
						w.WriteHeader(c.status)
						return false
					}
					return true
				}
				client := s.client(Options{Transports: []Transport{transport}})
				closed := make(chan error, 1)
				client.OnClosed(func(err error) { closed <- err })
				if err := client.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				requireText(t, <-closed, c.want)
			})
		}
	}
}

// TestLongPollingTakesTime is about what hours of silence do not do.
func TestLongPollingTakesTime(t *testing.T) {
	t.Run("it neither pings nor times out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				for m, ok := p.read(); ok; m, ok = p.read() {
					if m.Type == protocol.Ping {
						t.Error("got a ping")
					}
				}
			})
			c := s.started(Options{Transports: []Transport{LongPolling}})
			time.Sleep(time.Hour)
			if c.State() != Connected {
				t.Errorf("state %v", c.State())
			}
			if got := len(s.seen("/chat")); got < 30 || got > 50 { // one poll in 90 s
				t.Errorf("got %d requests", got)
			}
		})
	})
	t.Run("it polls again when a poll is not answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			polls := 0
			s.upgrade = func(_ http.ResponseWriter, r *http.Request) bool {
				s.mu.Lock()
				if r.Method == http.MethodGet {
					polls++
				}
				hang := r.Method == http.MethodGet && polls > 2
				s.mu.Unlock()
				if hang {
					<-r.Context().Done()
				}
				return !hang
			}
			c := s.started(Options{Transports: []Transport{LongPolling}})
			time.Sleep(requestTimeout + time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			if polls != 4 || c.State() != Connected {
				t.Errorf("got %d polls, state %v", polls, c.State())
			}
		})
	})
	t.Run("it pings over event streams", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			pinged := make(chan time.Duration, 10)
			s := newServer(t, func(p *peer) {
				for m, ok := p.read(); ok; m, ok = p.read() {
					if m.Type == protocol.Ping {
						pinged <- time.Since(begin)
					}
				}
			})
			c := s.client(Options{Transports: []Transport{ServerSentEvents}})
			closed := make(chan error, 1)
			c.OnClosed(func(err error) { closed <- err })
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, want := range []time.Duration{0, defaultKeepAliveInterval} {
				if got := <-pinged; got != want {
					t.Errorf("ping after %v want %v", got, want)
				}
			}
			if err := <-closed; !errors.Is(err, ErrServerTimeout) || time.Since(begin) != defaultServerTimeout {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
		})
	})
}

// TestPostsAreJoined: records that are sent while a POST is open share the
// next one.
func TestPostsAreJoined(t *testing.T) {
	s := newServer(t, func(p *peer) {
		for i := range 100 {
			if m := p.expect(protocol.Invocation); string(m.Arguments[0]) != fmt.Sprint(i) {
				t.Errorf("record %d: got %q", i, m.Arguments)
			}
		}
		p.send(completion(p.expect(protocol.Invocation)))
		p.drain()
	})
	release := make(chan struct{})
	posts := 0
	s.upgrade = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			s.mu.Lock()
			posts++
			wait := posts == 2 // the first is the handshake
			s.mu.Unlock()
			if wait {
				<-release
			}
		}
		return true
	}
	c := s.started(Options{Transports: []Transport{LongPolling}})
	for i := range 100 {
		if err := c.Send(t.Context(), "Log", i); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if v, err := Invoke[int](t.Context(), c, "Echo", 7); err != nil || v != 7 {
		t.Errorf("got %d, %v", v, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if posts > 4 {
		t.Errorf("got %d posts", posts)
	}
}

// TestStopOfSilentPlainServers: nothing a server leaves open keeps Stop.
func TestStopOfSilentPlainServers(t *testing.T) {
	for _, transport := range []Transport{ServerSentEvents, LongPolling} {
		t.Run("it stops on "+string(transport)+" although POST and DELETE hang", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				posts := 0
				s.upgrade = func(_ http.ResponseWriter, r *http.Request) bool {
					s.mu.Lock()
					if r.Method == http.MethodPost {
						posts++
					}
					hang := r.Method != http.MethodGet && posts > 1
					s.mu.Unlock()
					if hang {
						_, _ = io.Copy(io.Discard, r.Body)
						<-r.Context().Done()
					}
					return !hang
				}
				c := s.started(Options{Transports: []Transport{transport}})
				if err := c.Send(t.Context(), "X"); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				if err := c.Stop(t.Context()); err != nil || time.Since(begin) != closeTimeout {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
			})
		})
	}
}
