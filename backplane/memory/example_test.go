package memory_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchboard-hub/switchboard/backplane/memory"
)

func Example() {
	broker := memory.New()
	one, two := broker.Connect(), broker.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { one.Run(ctx) })
	running.Go(func() { two.Run(ctx) })

	delivered := make(chan string)
	deliver := func(channel string, payload []byte) { delivered <- channel + ": " + string(payload) }
	if err := two.Subscribe(ctx, deliver, "news"); err != nil {
		fmt.Println(err)
	}
	if err := one.Publish(ctx, "news", []byte("hello")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-delivered)
	cancel()
	running.Wait()
	// Output: news: hello
}
