package client_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
)

// handleChatStreams adds what the examples stream.
func handleChatStreams(h *hub.Hub) {
	h.Handle("Countdown", hub.Stream1(func(_ context.Context, _ *hub.Caller, from int) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) {
			for n := from; n >= 0 && yield(n, nil); n-- {
			}
		}, nil
	}))
	h.Handle("Average", hub.Func1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[float64]) (float64, error) {
		sum, n := 0.0, 0
		for v, err := range in.All() {
			if err != nil {
				return 0, err
			}
			sum += v
			n++
		}
		return sum / float64(max(n, 1)), nil
	}))
}

// connected starts a client of a small hub.
func connected(ctx context.Context) (c *client.Client, stop func(), err error) {
	server, stopServer := chatServer()
	c, err = client.New(client.Options{URL: server})
	if err == nil {
		err = c.Start(ctx)
	}
	if err != nil {
		stopServer()
		return nil, nil, err
	}
	return c, func() {
		if err := c.Stop(ctx); err != nil {
			fmt.Println(err)
		}
		stopServer()
	}, nil
}

// Leaving the loop cancels the method.
func ExampleStream() {
	ctx := context.Background()
	c, stop, err := connected(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	for n, err := range client.Stream[int](ctx, c, "Countdown", 1000) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n)
		if n == 998 {
			break
		}
	}
	// Output:
	// 1000
	// 999
	// 998
}

// An argument may be a stream.
func ExampleUpload() {
	ctx := context.Background()
	c, stop, err := connected(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	readings := func(yield func(float64, error) bool) {
		for _, v := range []float64{20.5, 21, 21.5} {
			if !yield(v, nil) {
				return
			}
		}
	}
	fmt.Println(client.Invoke[float64](ctx, c, "Average", client.Upload(readings)))
	// Output: 21 <nil>
}
