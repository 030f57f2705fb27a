package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// handleStreams adds methods with streams and client results to a hub.
func handleStreams(h *hub.Hub) {
	h.Handle("Count", hub.Stream1(func(ctx context.Context, _ *hub.Caller, n int) (iter.Seq2[int, error], error) {
		if n == 0 {
			return nil, hub.Errorf("nothing to count")
		}
		return func(yield func(int, error) bool) {
			for i := 0; i < n || n < 0; i++ {
				if ctx.Err() != nil || !yield(i, nil) {
					return
				}
			}
			yield(0, hub.Errorf("counted"))
		}, nil
	}))
	h.Handle("Sum", hub.Func2(func(_ context.Context, _ *hub.Caller, start int, in *hub.Upload[int]) (int, error) {
		for v, err := range in.All() {
			if err != nil {
				return 0, err
			}
			start += v
		}
		return start, nil
	}))
	h.Handle("Twice", hub.Stream1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) (iter.Seq2[string, error], error) {
		return func(yield func(string, error) bool) {
			for v, err := range in.All() {
				if !yield(v+v, err) {
					return
				}
			}
		}, nil
	}))
	h.Handle("AskBack", hub.Func1(func(ctx context.Context, from *hub.Caller, q string) (string, error) {
		return hub.Invoke[string](ctx, h.Clients().Client(from.ConnectionID()), "Ask", q)
	}))
	h.Handle("Echo", hub.Action1(func(ctx context.Context, from *hub.Caller, n int) error {
		return h.Clients().Client(from.ConnectionID()).Send(ctx, "Echoed", n)
	}))
}

// everyWay runs f with every transport and every protocol that it carries.
func everyWay(t *testing.T, f func(t *testing.T, opts client.Options)) {
	for _, transport := range []client.Transport{client.WebSockets, client.ServerSentEvents, client.LongPolling} {
		for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
			if transport == client.ServerSentEvents && p.Binary() {
				continue
			}
			t.Run(string(transport)+" "+p.Name(), func(t *testing.T) {
				f(t, client.Options{Transports: []client.Transport{transport}, Protocol: p})
			})
		}
	}
}

func TestEveryTransportWithHub(t *testing.T) {
	_, url := serve(t)
	everyWay(t, func(t *testing.T, opts client.Options) {
		opts.URL = url
		told := make(chan string, 1)
		c := connect(t, opts, func(c *client.Client) {
			client.OnResult(c, "Ask", func(a client.Args) (string, error) {
				q, err := client.Arg[string](a, 0)
				if q == "fail" {
					return "", errors.New("do not know")
				}
				return q + "!", err
			})
			c.On("Told", func(a client.Args) {
				text, err := client.Arg[string](a, 1)
				if err != nil {
					t.Error(err)
				}
				told <- text
			})
		})
		if c.Transport() != opts.Transports[0] {
			t.Fatalf("got %s", c.Transport())
		}
		if who, err := client.Invoke[string](t.Context(), c, "WhoAmI"); err != nil || who != "alice" {
			t.Errorf("got %q, %v", who, err)
		}
		if err := c.Call(t.Context(), "Join", t.Name()); err != nil {
			t.Error(err)
		}
		if err := c.Send(t.Context(), "Tell", t.Name(), "hé\n"); err != nil {
			t.Error(err)
		}
		if got := <-told; got != "hé\n" {
			t.Errorf("got %q", got)
		}
		if got, err := client.Invoke[string](t.Context(), c, "AskBack", "so"); err != nil || got != "so!" {
			t.Errorf("got %q, %v", got, err)
		}
		streamWithHub(t, c)
	})
}

// streamWithHub streams in all directions.
func streamWithHub(t *testing.T, c *client.Client) {
	t.Helper()
	want := 0
	var end error
	for v, err := range client.Stream[int](t.Context(), c, "Count", 2000) {
		if end = err; err != nil {
			break
		}
		if v != want {
			t.Fatalf("got %d want %d", v, want)
		}
		want++
	}
	refused, ok := errors.AsType[*client.HubError](end)
	if want != 2000 || !ok || !strings.HasSuffix(refused.Text, "HubException: counted") {
		t.Errorf("got %d items, %v", want, end)
	}
	for _, err := range client.Stream[int](t.Context(), c, "Count", 0) {
		if refused, ok := errors.AsType[*client.HubError](err); !ok || !strings.HasSuffix(refused.Text, "HubException: nothing to count") {
			t.Errorf("got %v", err)
		}
	}
	for range client.Stream[int](t.Context(), c, "Count", -1) { // without end
		break
	}
	numbers := func(yield func(int, error) bool) {
		for i := range 1000 {
			if !yield(i, nil) {
				return
			}
		}
	}
	if sum, err := client.Invoke[int](t.Context(), c, "Sum", client.Upload(numbers), 1); err != nil || sum != 1+999*1000/2 {
		t.Errorf("got %d, %v", sum, err)
	}
	broken := func(yield func(int, error) bool) { yield(0, errors.New("uperr")) }
	refused, ok = errors.AsType[*client.HubError](c.Call(t.Context(), "Sum", 1, client.Upload(broken)))
	if !ok || !strings.Contains(refused.Text, "uperr") {
		t.Errorf("got %v", refused)
	}
	var twice []string
	words := func(yield func(string, error) bool) { _ = yield("a", nil) && yield("b", nil) }
	for v, err := range client.Stream[string](t.Context(), c, "Twice", client.Upload(words)) {
		if err != nil {
			t.Error(err)
		}
		twice = append(twice, v)
	}
	if !slices.Equal(twice, []string{"aa", "bb"}) {
		t.Errorf("got %v", twice)
	}
}

func BenchmarkStream(b *testing.B) {
	_, url := serve(b)
	for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
		b.Run(fmt.Sprint(p.Name(), " item"), func(b *testing.B) {
			c := connect(b, client.Options{URL: url, Protocol: p}, nil)
			b.ReportAllocs()
			next, stop := iter.Pull2(client.Stream[int](b.Context(), c, "Count", -1))
			defer stop()
			for b.Loop() {
				if _, err, ok := next(); err != nil || !ok {
					b.Fatal(err)
				}
			}
		})
	}
}
