package hub_test

import (
	"context"
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
