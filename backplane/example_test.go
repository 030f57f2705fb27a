package backplane_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/switchboard-hub/switchboard/backplane"
)

func Example() {
	b, err := backplane.New(backplane.Options{URL: "redis://127.0.0.1:6379", ChannelPrefix: "app"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	defer running.Wait()
	defer cancel()

	deliver := func(channel string, payload []byte) { fmt.Printf("%s: %s\n", channel, payload) }
	if err := b.Subscribe(ctx, deliver, "news"); err != nil {
		log.Print(err)
		return
	}
	if err := b.Publish(ctx, "news", []byte("hello")); err != nil {
		log.Print(err)
	}
}
