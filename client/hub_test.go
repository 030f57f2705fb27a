package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// serve runs a hub at the URL it returns until the test ends.
func serve(t testing.TB) (h *hub.Hub, url string) {
	t.Helper()
	h, err := hub.New(hub.Options{Name: "Test.Hub", AllowStatefulReconnects: true, Authenticate: func(r *http.Request) (*hub.Identity, error) {
		user, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return nil, errors.New("no token")
		}
		return &hub.Identity{UserID: user}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.Handle("Add", hub.Func2(func(_ context.Context, _ *hub.Caller, a, b int) (int, error) { return a + b, nil }))
	h.Handle("WhoAmI", hub.Func0(func(_ context.Context, from *hub.Caller) (string, error) { return from.UserID(), nil }))
	h.Handle("Fail", hub.Action0(func(context.Context, *hub.Caller) error { return hub.Errorf("no room") }))
	h.Handle("Join", hub.Action1(func(ctx context.Context, from *hub.Caller, group string) error { return from.AddToGroup(ctx, group) }))
	h.Handle("Tell", hub.Action2(func(ctx context.Context, from *hub.Caller, group, text string) error {
		return from.Clients().Group(group).Send(ctx, "Told", from.UserID(), text)
	}))
	handleStreams(h)
	mux := http.NewServeMux()
	h.Register(mux, "/hub")
	server := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		server.Close()
	})
	<-h.Ready()
	return h, server.URL + "/hub"
}

// connect starts a client that stops with the test.
func connect(t testing.TB, opts client.Options, prepare func(*client.Client)) *client.Client {
	t.Helper()
	opts.AccessToken = func(context.Context) (string, error) { return "alice", nil }
	c, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(c)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestWithHub(t *testing.T) {
	_, url := serve(t)
	for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
		for _, skip := range []bool{false, true} {
			name := "it works with " + p.Name()
			if skip {
				name += " without negotiation"
			}
			t.Run(name, func(t *testing.T) {
				told := make(chan string, 1)
				c := connect(t, client.Options{URL: url, Protocol: p, SkipNegotiation: skip}, func(c *client.Client) {
					c.On("told", func(a client.Args) {
						var from, text string
						if err := a.Bind(&from, &text); err != nil {
							t.Error(err)
						}
						told <- from + ": " + text
					})
				})
				if (c.ConnectionID() == "") != skip {
					t.Errorf("connection id %q", c.ConnectionID())
				}
				if sum, err := client.Invoke[int](t.Context(), c, "add", 19, 23); err != nil || sum != 42 {
					t.Errorf("got %d, %v", sum, err)
				}
				if who, err := client.Invoke[string](t.Context(), c, "WhoAmI"); err != nil || who != "alice" {
					t.Errorf("got %q, %v", who, err)
				}
				refused, ok := errors.AsType[*client.HubError](c.Call(t.Context(), "Fail"))
				if !ok || !strings.HasSuffix(refused.Text, "HubException: no room") {
					t.Errorf("got %v", refused)
				}
				if err := c.Call(t.Context(), "Join", t.Name()); err != nil {
					t.Error(err)
				}
				if err := c.Send(t.Context(), "Tell", t.Name(), "hé"); err != nil {
					t.Error(err)
				}
				if got := <-told; got != "alice: hé" {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

func TestHubRefusesWithoutToken(t *testing.T) {
	_, url := serve(t)
	for _, skip := range []bool{false, true} {
		c, err := client.New(client.Options{URL: url, SkipNegotiation: skip})
		if err != nil {
			t.Fatal(err)
		}
		status, ok := errors.AsType[*client.StatusError](c.Start(t.Context()))
		if !ok || status.Status != http.StatusUnauthorized {
			t.Errorf("skipping negotiation %v: got %v", skip, status)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestHubShutsDown: the hub's Close record allows a reconnect, for which the
// policy is asked.
func TestHubShutsDown(t *testing.T) {
	h, url := serve(t)
	asked, closed := make(chan client.Retry, 1), make(chan error, 1)
	connect(t, client.Options{URL: url, Reconnect: func(r client.Retry) (time.Duration, bool) { asked <- r; return 0, false }}, func(c *client.Client) {
		c.OnClosed(func(err error) { closed <- err })
	})
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if r := <-asked; r.Attempt != 0 {
		t.Errorf("asked with %+v", r)
	}
	if err := <-closed; err != nil {
		t.Errorf("closed with %v", err)
	}
}

func BenchmarkInvoke(b *testing.B) {
	_, url := serve(b)
	for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
		b.Run(p.Name(), func(b *testing.B) {
			c := connect(b, client.Options{URL: url, Protocol: p}, nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Invoke[int](b.Context(), c, "Add", 19, 23); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
