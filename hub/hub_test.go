package hub_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols are the hub protocols every test of behaviour runs over.
func protocols() []protocol.Protocol {
	return []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}}
}

// start runs a hub for the length of the test, with the methods that most
// tests need.
func start(t testing.TB, opts hub.Options, set ...func(*hub.Hub)) *hub.Hub {
	t.Helper()
	if opts.Name == "" {
		opts.Name = "Test.Hub"
	}
	h, err := hub.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	h.Handle("Echo", hub.Func1(func(_ context.Context, _ *hub.Caller, v protocol.Value) (protocol.Value, error) { return v, nil }))
	h.Handle("EchoString", hub.Func1(func(_ context.Context, _ *hub.Caller, s string) (string, error) { return s, nil }))
	h.Handle("Add", hub.Func2(func(_ context.Context, _ *hub.Caller, a, b int) (int, error) { return a + b, nil }))
	h.Handle("Join", hub.Action1(func(ctx context.Context, c *hub.Caller, group string) error { return c.AddToGroup(ctx, group) }))
	h.Handle("Leave", hub.Action1(func(ctx context.Context, c *hub.Caller, group string) error { return c.RemoveFromGroup(ctx, group) }))
	h.Handle("SendGroup", hub.Action2(func(ctx context.Context, c *hub.Caller, group string, v protocol.Value) error {
		return c.Clients().Group(group).Send(ctx, "m", v)
	}))
	h.Handle("SendAll", hub.Action1(func(ctx context.Context, c *hub.Caller, v protocol.Value) error {
		return c.Clients().All().Send(ctx, "m", v)
	}))
	h.Handle("Fail", hub.Action1(func(_ context.Context, _ *hub.Caller, text string) error { return hub.Errorf("%s", text) }))
	for _, f := range set {
		f(h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-h.Ready()
	return h
}

func TestCallsAreAnswered(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			h := start(t, hub.Options{})
			c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
			for _, tt := range []struct {
				target string
				args   []any
				want   any
			}{
				{"Echo", []any{"hé"}, "hé"},
				{"echo", []any{int64(1) << 60}, int64(1) << 60},
				{"ECHOSTRING", []any{"x"}, "x"},
				{"Add", []any{1, 2}, int64(3)},
				{"Join", []any{"g"}, nil},
			} {
				got, err := c.Invoke(tt.target, tt.args, nil)
				if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("%s(%v) = %v, %v, want %v", tt.target, tt.args, got, err, tt.want)
				}
			}
			if _, err := c.Invoke("Fail", []any{"no"}, nil); err == nil || err.Error() != "An unexpected error occurred invoking 'Fail' on the server. HubException: no" {
				t.Errorf("Fail: %v", err)
			}
		})
	}
}

func TestAClientWithItsHandshakeIsReachable(t *testing.T) {
	h := start(t, hub.Options{})
	for i := range 300 {
		c := hubtest.Connect(t, h, hubtest.Options{Protocol: protocols()[i%2], ConnectionID: fmt.Sprint("c", i)})
		if err := h.Clients().All().Send(t.Context(), "m", i); err != nil {
			t.Fatal(err)
		}
		if got := c.Receive(); got.Args[0] != int64(i) {
			t.Fatalf("received %v, want %d", got.Args, i)
		}
		c.Drop()
	}
}

func TestFiltersWrapCallsAndCallbacks(t *testing.T) {
	var order []string
	note := func(name string) hub.Filter {
		return hub.Filter{
			Invoke: func(ctx context.Context, in *hub.Invocation, next func(context.Context) (any, error)) (any, error) {
				order = append(order, name+" in")
				in.Args[0] = in.Args[0].(int) + 1
				result, err := next(ctx)
				order = append(order, name+" out")
				return result, err
			},
			Connected: func(ctx context.Context, _ *hub.Caller, next func(context.Context) error) error {
				order = append(order, name+" connected")
				return next(ctx)
			},
		}
	}
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Use(note("outer"))
		h.Use(note("inner"))
	})
	c := hubtest.Connect(t, h, hubtest.Options{})
	got, err := c.Invoke("Add", []any{1, 1}, nil)
	if err != nil || got != int64(4) {
		t.Errorf("got %v, %v, want 4: each filter adds one", got, err)
	}
	want := "[outer connected inner connected outer in inner in inner out outer out]"
	if s := fmt.Sprint(order); s != want {
		t.Errorf("order %s, want %s", s, want)
	}
}

func TestRulesDecideWhoMayCall(t *testing.T) {
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Secret", hub.Func0(func(context.Context, *hub.Caller) (string, error) { return "s", nil }), hub.RequirePermission("ops:read:db"))
	})
	for _, tt := range []struct {
		identity *hub.Identity
		allowed  bool
	}{
		{nil, false},
		{&hub.Identity{}, false},
		{&hub.Identity{Permissions: []string{"ops:read"}}, false},
		{&hub.Identity{Permissions: []string{"ops:read:*"}}, true},
		{&hub.Identity{Permissions: []string{"ops:read:db"}}, true},
		{&hub.Identity{Permissions: []string{"admin"}}, true},
	} {
		c := hubtest.Connect(t, h, hubtest.Options{Identity: tt.identity})
		_, err := c.Invoke("Secret", nil, nil)
		if tt.allowed && err != nil || !tt.allowed && (err == nil || err.Error() != "Failed to invoke 'Secret' because user is unauthorized") {
			t.Errorf("%+v: %v, want allowed %v", tt.identity, err, tt.allowed)
		}
	}
}

func TestErrorsSayWhatTheOfficialServerSays(t *testing.T) {
	failing := func(h *hub.Hub) {
		h.Handle("Boom", hub.Action0(func(context.Context, *hub.Caller) error { return errors.New("BOOM!") }))
		h.Handle("Named", hub.Action0(func(context.Context, *hub.Caller) error { return named{} }))
		h.Handle("Panic", hub.Action0(func(context.Context, *hub.Caller) error { panic("x") }))
	}
	for _, p := range protocols() {
		for _, detailed := range []bool{false, true} {
			t.Run(fmt.Sprint(p.Name(), " detailed ", detailed), func(t *testing.T) {
				h := start(t, hub.Options{EnableDetailedErrors: detailed}, failing)
				c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				detail := func(s string) string {
					if detailed {
						return s
					}
					return ""
				}
				for _, tt := range []struct {
					target string
					args   []any
					want   string
				}{
					{"Nope", nil, "Failed to invoke 'Nope' due to an error on the server. HubException: Method does not exist."},
					{"add", []any{1}, "Failed to invoke 'Add' due to an error on the server." + detail(" InvalidDataException: Invocation provides 1 argument(s) but target expects 2.")},
					{"Add", []any{"x", 1}, "Failed to invoke 'Add' due to an error on the server." + detail(" InvalidDataException: Error binding arguments. Make sure that the types of the provided values match the types of the hub method being invoked.")},
					{"Boom", nil, "An unexpected error occurred invoking 'Boom' on the server." + detail(" Exception: BOOM!")},
					{"Named", nil, "An unexpected error occurred invoking 'Named' on the server." + detail(" InvalidOperationException: no")},
					{"Panic", nil, "An unexpected error occurred invoking 'Panic' on the server." + detail(" Exception: panic: x")},
					{"Fail", []any{"no"}, "An unexpected error occurred invoking 'Fail' on the server. HubException: no"},
				} {
					if _, err := c.Invoke(tt.target, tt.args, nil); err == nil || err.Error() != tt.want {
						t.Errorf("%s: %v, want %s", tt.target, err, tt.want)
					}
				}
				if got, err := c.Invoke("EchoString", []any{"still"}, nil); err != nil || got != "still" {
					t.Errorf("afterwards: %v, %v", got, err)
				}
			})
		}
	}
}

type named struct{}

func (named) Error() string    { return "no" }
func (named) TypeName() string { return "InvalidOperationException" }

func TestAFailingConnectClosesForGood(t *testing.T) {
	disconnected := false
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.OnConnected(func(context.Context, *hub.Caller) error { return hub.Errorf("not you") })
		h.OnDisconnected(func(context.Context, *hub.Caller, error) { disconnected = true })
	})
	c := hubtest.Connect(t, h, hubtest.Options{})
	m, err := c.Next()
	if err != nil || m.Type != protocol.Close || m.AllowReconnect || string(m.Error) != "Connection closed with an error. HubException: not you" {
		t.Errorf("got type %d, error %q, reconnect %v, %v", m.Type, m.Error, m.AllowReconnect, err)
	}
	c.HangUp()
	<-c.Over()
	if disconnected {
		t.Error("OnDisconnected ran for a connection that was never let in")
	}
}
