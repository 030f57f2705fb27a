package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func TestNegotiate(t *testing.T) {
	t.Run("it negotiates version 1 and keeps query, headers and token", func(t *testing.T) {
		s := newServer(t)
		tokens := 0
		c := s.started(Options{
			URL:         "ws://hub/chat?x=1&y=a%2Bb",
			Header:      http.Header{"X-Tenant": {"acme"}},
			AccessToken: func(context.Context) (string, error) { tokens++; return "secret", nil },
		})
		if got := c.ConnectionID(); got != "c1" {
			t.Errorf("connection id %q", got)
		}
		posts, upgrades := s.seen("/negotiate"), s.seen("/chat")
		if len(posts) != 1 || len(upgrades) != 1 || tokens != 2 {
			t.Fatalf("got %d negotiates, %d upgrades, %d tokens", len(posts), len(upgrades), tokens)
		}
		if got, want := posts[0].Method+" "+posts[0].RequestURI, "POST /chat/negotiate?x=1&y=a%2Bb&negotiateVersion=1"; got != want {
			t.Errorf("got %s want %s", got, want)
		}
		if got, want := upgrades[0].RequestURI, "/chat?x=1&y=a%2Bb&id=t1"; got != want {
			t.Errorf("got %s want %s", got, want)
		}
		for _, r := range []*http.Request{posts[0], upgrades[0]} {
			h := r.Header
			if h.Get("Authorization") != "Bearer secret" || h.Get("X-Tenant") != "acme" || h.Get("X-Requested-With") != "XMLHttpRequest" {
				t.Errorf("%s: header %v", r.Method, h)
			}
		}
	})
	t.Run("it does not double the slash of a hub's path", func(t *testing.T) {
		s := newServer(t)
		s.started(Options{URL: "http://hub/chat/"})
		if got := s.seen("/negotiate")[0].URL.Path; got != "/chat/negotiate" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("it uses the connection id as token in version 0", func(t *testing.T) {
		s := newServer(t)
		s.negotiate = func(w http.ResponseWriter, _ *http.Request) { answerNegotiate(w, `"connectionId":"a+b"`) }
		c := s.started(Options{})
		if got := s.seen("/chat")[0].URL.Query().Get("id"); got != "a+b" || c.ConnectionID() != "a+b" {
			t.Errorf("got %q, %q", got, c.ConnectionID())
		}
	})
	t.Run("it skips negotiation when told to", func(t *testing.T) {
		s := newServer(t)
		c := s.started(Options{SkipNegotiation: true})
		if posts := s.seen("/negotiate"); len(posts) != 0 || c.ConnectionID() != "" {
			t.Errorf("got %d negotiates, id %q", len(posts), c.ConnectionID())
		}
		if got := s.seen("/chat")[0].RequestURI; got != "/chat" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("it follows redirects and their token", func(t *testing.T) {
		s := newServer(t)
		s.negotiate = func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/chat/negotiate":
				_, _ = io.WriteString(w, `{"url":"https://hub/other?x=1","accessToken":"new","availableTransports":[]}`)
			default:
				answerNegotiate(w, `"negotiateVersion":1,"connectionId":"c","connectionToken":"t"`)
			}
		}
		// https of the redirect would need TLS: the test's transport drops it.
		c := s.client(Options{AccessToken: func(context.Context) (string, error) { return "old", nil }})
		c.opts.HTTPClient = &http.Client{Transport: plainText{c.opts.HTTPClient.Transport}}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		posts, upgrade := s.seen("/negotiate"), s.seen("/other")[0]
		if len(posts) != 2 || posts[1].RequestURI != "/other/negotiate?x=1&negotiateVersion=1" || upgrade.RequestURI != "/other?x=1&id=t" {
			t.Errorf("got %d negotiates, upgrade %s", len(posts), upgrade.RequestURI)
		}
		for i, want := range []string{"Bearer old", "Bearer new", "Bearer new"} {
			if got := append(posts, upgrade)[i].Header.Get("Authorization"); got != want {
				t.Errorf("request %d: got %q want %q", i, got, want)
			}
		}
	})
	t.Run("it gives up after 100 redirects", func(t *testing.T) {
		s := newServer(t)
		s.negotiate = func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"url":"http://hub/chat"}`)
		}
		if err := s.client(Options{}).Start(t.Context()); !errors.Is(err, ErrTooManyRedirects) {
			t.Errorf("got %v", err)
		}
		if got := len(s.seen("/negotiate")); got != 100 {
			t.Errorf("got %d negotiates", got)
		}
	})
}

// plainText turns https into http.
type plainText struct{ base http.RoundTripper }

func (p plainText) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return p.base.RoundTrip(r)
}

func TestStartFails(t *testing.T) {
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	status := func(want StatusError) func(error) bool {
		return func(err error) bool { e, ok := errors.AsType[*StatusError](err); return ok && *e == want }
	}
	refused := func(want string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*NegotiateError](err)
			return ok && strings.Contains(e.Text, want)
		}
	}
	noDetail := func(err error) bool { return err != nil }
	for _, c := range []struct {
		finish    string
		negotiate string // the body
		status    int    // of negotiate
		upgrade   int    // status of the upgrade, if not 101
		handshake string
		protocol  protocol.Protocol
		token     error
		check     func(error) bool
	}{
		{finish: "passes on the negotiate error", negotiate: `{"error":"no room"}`, check: refused("no room")},
		{finish: "takes no status but 200", status: 201, check: status(StatusError{"negotiate", 201})},
		{finish: "reports a missing authorization", status: 401, check: status(StatusError{"negotiate", 401})},
		{finish: "refuses an answer that is not JSON", negotiate: `<html>`, check: noDetail},
		{finish: "refuses an answer without a token", negotiate: `{"negotiateVersion":1,"connectionId":"c","availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]}]}`, check: refused("token")},
		{finish: "refuses stateful reconnect it did not ask for", negotiate: `{"negotiateVersion":1,"connectionId":"c","connectionToken":"t","useStatefulReconnect":true,"availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]}]}`, check: refused("stateful")},
		{finish: "needs a transport it knows", negotiate: `{"connectionId":"c","availableTransports":[{"transport":"Pigeons","transferFormats":["Text","Binary"]}]}`, check: is(ErrNoTransport)},
		{finish: "needs a binary transport for MessagePack", negotiate: `{"connectionId":"c","availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]},{"transport":"ServerSentEvents","transferFormats":["Text","Binary"]}]}`, protocol: protocol.MessagePack{}, check: is(ErrNoTransport)},
		{finish: "refuses a redirect to elsewhere than HTTP", negotiate: `{"url":"ftp://hub/chat"}`, check: noDetail},
		{finish: "reports an unknown token", upgrade: 404, check: status(StatusError{"connect", 404})},
		{finish: "passes on the handshake error", handshake: `{"error":"The protocol 'json' is not supported."}` + "\x1e", check: func(err error) bool {
			e, ok := errors.AsType[*HandshakeError](err)
			return ok && e.Text == "The protocol 'json' is not supported."
		}},
		{finish: "refuses a hub message as handshake answer", handshake: `{"type":6}` + "\x1e", check: noDetail},
		{finish: "refuses a handshake answer above the limit", handshake: strings.Repeat("x", 2000), check: is(protocol.ErrTooLarge)},
		{finish: "passes on the error of the access token", token: io.ErrNoProgress, check: is(io.ErrNoProgress)},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			s := newServer(t)
			s.handshake = c.handshake
			if c.negotiate != "" || c.status != 0 {
				s.negotiate = func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(max(c.status, http.StatusOK))
					_, _ = io.WriteString(w, c.negotiate)
				}
			}
			if c.upgrade != 0 {
				s.upgrade = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(c.upgrade); return false }
			}
			opts := Options{Protocol: c.protocol, MaximumReceiveMessageSize: 1000}
			if c.token != nil {
				opts.AccessToken = func(context.Context) (string, error) { return "", c.token }
			}
			client := s.client(opts)
			client.OnClosed(func(error) { t.Error("OnClosed ran") })
			if err := client.Start(t.Context()); !c.check(err) {
				t.Errorf("got %v", err)
			}
			if got := client.State(); got != Disconnected {
				t.Errorf("state %v", got)
			}
		})
	}
}

func TestStartIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		finish    string
		interrupt func(c *Client, cancel context.CancelFunc) error
		want      error
	}{
		{"by its context", func(_ *Client, cancel context.CancelFunc) error { cancel(); return nil }, context.Canceled},
		{"by Stop", func(c *Client, _ context.CancelFunc) error { return c.Stop(context.Background()) }, ErrStopped},
	} {
		for _, stage := range []string{"negotiate", "upgrade", "handshake"} {
			t.Run("it is interrupted "+c.finish+" during "+stage, func(t *testing.T) {
				s := newServer(t)
				reached := make(chan struct{})
				hang := func(r *http.Request) { close(reached); <-r.Context().Done() }
				switch stage {
				case "negotiate":
					s.negotiate = func(_ http.ResponseWriter, r *http.Request) { hang(r) }
				case "upgrade":
					s.upgrade = func(_ http.ResponseWriter, r *http.Request) bool { hang(r); return false }
				case "handshake":
					s.upgrade = func(w http.ResponseWriter, r *http.Request) bool {
						if ws, err := websocket.Accept(w, r, nil); err == nil {
							_, _, _ = ws.Read(context.Background())
							close(reached)
							_, _, _ = ws.Read(context.Background())
							ws.CloseNow()
						}
						return false
					}
				}
				client := s.client(Options{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				started := make(chan error)
				go func() { started <- client.Start(ctx) }()
				<-reached
				if err := client.Start(ctx); !errors.Is(err, ErrStarted) {
					t.Errorf("second Start: got %v", err)
				}
				if err := c.interrupt(client, cancel); err != nil {
					t.Error(err)
				}
				if err := <-started; !errors.Is(err, c.want) {
					t.Errorf("got %v want %v", err, c.want)
				}
			})
		}
	}
}

func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.upgrade = func(w http.ResponseWriter, r *http.Request) bool {
			if ws, err := websocket.Accept(w, r, nil); err == nil {
				for err == nil {
					_, _, err = ws.Read(context.Background())
				}
				ws.CloseNow()
			}
			return false
		}
		begin := time.Now()
		err := s.client(Options{HandshakeTimeout: 7 * time.Second}).Start(t.Context())
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 7*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// TestHandshakeAnswer sends the answer in the ways servers do.
func TestHandshakeAnswer(t *testing.T) {
	t.Run("it handles records that follow in the same message", func(t *testing.T) {
		s := newServer(t)
		s.handshake = "{}\x1e" + `{"type":1,"target":"hello","arguments":[1]}` + "\x1e" + `{"type":1,"target":"hello","argum`
		s.scripts = []script{func(p *peer) {
			p.write(`ents":[2]}` + "\x1e")
			p.drain()
		}}
		c := s.client(Options{})
		got := make(chan int, 2)
		c.On("hello", func(a Args) {
			n, err := Arg[int](a, 0)
			if err != nil {
				t.Error(err)
			}
			got <- n
		})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a, b := <-got, <-got; a != 1 || b != 2 {
			t.Errorf("got %d, %d", a, b)
		}
	})
	t.Run("it takes an answer in two messages", func(t *testing.T) {
		s := newServer(t)
		s.handshake = "{"
		s.scripts = []script{func(p *peer) { p.write("}\x1e"); echo(p) }}
		if got, err := Invoke[int](t.Context(), s.started(Options{}), "Echo", 5); err != nil || got != 5 {
			t.Errorf("got %d, %v", got, err)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		finish string
		opts   Options
		want   string
	}{
		{"refuses no URL", Options{}, "URL"},
		{"refuses a path", Options{URL: "/chat"}, "URL"},
		{"refuses another scheme", Options{URL: "ftp://hub/chat"}, "URL"},
		{"refuses a URL without host", Options{URL: "http:///chat"}, "URL"},
		{"refuses a broken URL", Options{URL: "http://hub:port/chat"}, "URL"},
		{"refuses a negative timeout", Options{URL: "http://hub", ServerTimeout: -1}, "ServerTimeout"},
		{"refuses a negative interval", Options{URL: "http://hub", KeepAliveInterval: -1}, "KeepAliveInterval"},
		{"refuses a negative handshake timeout", Options{URL: "http://hub", HandshakeTimeout: -1}, "HandshakeTimeout"},
		{"refuses a negative size", Options{URL: "http://hub", MaximumReceiveMessageSize: -1}, "MaximumReceiveMessageSize"},
		{"refuses a negative buffer", Options{URL: "http://hub", StreamBufferCapacity: -1}, "StreamBufferCapacity"},
		{"refuses an unknown transport", Options{URL: "http://hub", Transports: []Transport{"Pigeons"}}, "Transports"},
		{"refuses a transport twice", Options{URL: "http://hub", Transports: []Transport{LongPolling, LongPolling}}, "Transports"},
		{"refuses to resume without negotiation", Options{URL: "http://hub", SkipNegotiation: true, StatefulReconnect: true}, "StatefulReconnect"},
		{"refuses a negative reconnect buffer", Options{URL: "http://hub", StatefulReconnectBufferSize: -1}, "StatefulReconnectBufferSize"},
		{"refuses to skip negotiation without WebSockets", Options{URL: "http://hub", SkipNegotiation: true, Transports: []Transport{LongPolling}}, "SkipNegotiation"},
		{"refuses a negative queue", Options{URL: "http://hub", HandlerQueue: -1}, "HandlerQueue"},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			if _, err := New(c.opts); err == nil || !strings.Contains(err.Error(), "Options."+c.want) {
				t.Errorf("got %v want an error that names %s", err, c.want)
			}
		})
	}
	c, err := New(Options{URL: "wss://hub/chat"})
	if err != nil {
		t.Fatal(err)
	}
	o := c.opts
	if o.ServerTimeout != 30*time.Second || o.KeepAliveInterval != 15*time.Second || o.HandshakeTimeout != 15*time.Second ||
		o.Protocol != (protocol.JSON{}) || o.MaximumReceiveMessageSize != 16<<20 || o.HandlerQueue != 1024 || o.StreamBufferCapacity != 1024 || o.StatefulReconnectBufferSize != 100_000 || c.base.Scheme != "https" {
		t.Errorf("defaults: %+v", o)
	}
}
