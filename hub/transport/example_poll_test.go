package transport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// An endpoint without a hub, whose client polls: it gets back what it sends.
func ExampleEndpoint() {
	endpoint, err := transport.New(transport.Options{
		Transports: []transport.Kind{transport.LongPolling},
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

	request := func(method, path, body string) (status int, answer string) {
		r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(b)
	}
	var negotiated struct{ ConnectionToken string }
	_, answer := request(http.MethodPost, "/echo/negotiate?negotiateVersion=1", "")
	if err := json.Unmarshal([]byte(answer), &negotiated); err != nil {
		fmt.Println(err)
		return
	}
	path := "/echo?id=" + negotiated.ConnectionToken
	for _, step := range []struct{ method, body string }{
		{http.MethodGet, ""}, // opens the connection
		{http.MethodPost, "hello"},
		{http.MethodGet, ""},
		{http.MethodDelete, ""},
	} {
		status, answer := request(step.method, path, step.body)
		fmt.Printf("%s: %d %q\n", step.method, status, answer)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(endpoint.Wait(ctx), endpoint.Stats().Accepted)
	// Output:
	// GET: 200 ""
	// POST: 200 ""
	// GET: 200 "hello"
	// DELETE: 202 ""
	// <nil> 1
}
