package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
)

// A client joins a group whenever it is connected, and hears what it says
// itself.
func Example() {
	server, stop := chatServer()
	defer stop()

	ctx := context.Background()
	c, err := client.New(client.Options{URL: server, Reconnect: client.DefaultRetryDelays()})
	if err != nil {
		fmt.Println(err)
		return
	}
	heard := make(chan string)
	c.On("ReceiveMessage", func(args client.Args) {
		text, err := client.Arg[string](args, 0)
		if err != nil {
			fmt.Println(err)
		}
		heard <- text
	})
	join := func() {
		if err := c.Call(ctx, "Join", "lobby"); err != nil {
			fmt.Println(err)
		}
	}
	c.OnReconnected(func(string) { join() }) // a new connection is in no group
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	join()

	said, err := client.Invoke[int](ctx, c, "Say", "lobby", "hello")
	fmt.Println(said, err)
	fmt.Println(<-heard)
	fmt.Println(c.Stop(ctx))
	// Output:
	// 5 <nil>
	// hello
	// <nil>
}

// chatServer runs a small hub.
func chatServer() (url string, stop func()) {
	h, err := hub.New(hub.Options{Name: "Contoso.Chat.ChatHub"})
	if err != nil {
		panic(err)
	}
	h.Handle("Join", hub.Action1(func(ctx context.Context, from *hub.Caller, group string) error {
		return from.AddToGroup(ctx, group)
	}))
	h.Handle("Say", hub.Func2(func(ctx context.Context, from *hub.Caller, group, text string) (int, error) {
		return len(text), from.Clients().Group(group).Send(ctx, "ReceiveMessage", text)
	}))
	handleChatStreams(h)
	mux := http.NewServeMux()
	h.Register(mux, "/chat")
	server := httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	<-h.Ready()
	return server.URL + "/chat", func() {
		cancel()
		running.Wait()
		server.Close()
	}
}
