package hub_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/switchboard-hub/switchboard/hub"
)

// A chat with one method, mounted on a standard mux.
func Example() {
	h, err := hub.New(hub.Options{Name: "Contoso.Chat.ChatHub"})
	if err != nil {
		fmt.Println(err)
		return
	}
	h.OnConnected(func(ctx context.Context, c *hub.Caller) error {
		return c.AddToGroup(ctx, "lobby")
	})
	h.Handle("SendMessage", hub.Action2(func(ctx context.Context, from *hub.Caller, room, text string) error {
		if text == "" {
			return hub.Errorf("message is empty") // the client reads this
		}
		return from.Clients().Group(room).Send(ctx, "ReceiveMessage", from.UserID(), text)
	}))

	mux := http.NewServeMux()
	h.Register(mux, "/chat")

	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a real program serves mux and cancels when it is told to stop
	fmt.Println(h.Run(ctx))
	// Output: <nil>
}
