package transport_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// An endpoint whose connections get back what they send.
func Example() {
	endpoint, err := transport.New(transport.Options{
		AllowedOrigins: []string{"https://app.example"},
		Open: func(r *http.Request, c transport.Info) (func(transport.Conn), error) {
			return func(conn transport.Conn) {
				for {
					piece, err := conn.Receive()
					if err != nil {
						return
					}
					answer := transport.NewMessage(piece, false)
					if conn.Send([]*transport.Message{answer}, time.Now().Add(10*time.Second)) != nil {
						return
					}
				}
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/echo", endpoint)
	mux.Handle("/echo/negotiate", endpoint)
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, _, err := websocket.Dial(ctx, strings.Replace(server.URL, "http", "ws", 1)+"/echo", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	_, answer, err := client.Read(ctx)
	fmt.Println(string(answer), err)

	if err := client.Close(websocket.StatusNormalClosure, ""); err != nil {
		fmt.Println(err)
	}
	fmt.Println(endpoint.Wait(ctx), endpoint.Stats().Accepted)
	// Output:
	// hello <nil>
	// <nil> 1
}
