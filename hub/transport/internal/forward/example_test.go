package forward_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/switchboard-hub/switchboard/hub/transport/internal/forward"
)

// Two instances share a key. A request that arrives at the second is served by
// the first.
func Example() {
	options := forward.Options{Keys: func() (sign [32]byte, accept [][32]byte, ok bool) {
		key := [32]byte{1, 2, 3} // random, in life
		return key, [][32]byte{key}, true
	}}
	instance := func(owner func() string) *httptest.Server {
		f := forward.New(options)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, forwarded, err := f.Accept(r)
			switch {
			case err != nil:
				w.WriteHeader(http.StatusForbidden)
				return
			case forwarded || owner() == "":
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s: %s", r.Method, r.RequestURI, body)
				return
			}
			switch err := f.Forward(w, r, owner()); {
			case errors.Is(err, forward.ErrUnreachable):
				w.WriteHeader(http.StatusNotFound)
			case err != nil:
				w.WriteHeader(http.StatusBadRequest)
			}
		}))
		s.Config.RegisterOnShutdown(f.Close)
		return s
	}
	first := instance(func() string { return "" })
	defer first.Close()
	second := instance(func() string { return first.Listener.Addr().String() })
	defer second.Close()

	res, err := http.Post(second.URL+"/chat?id=42", "text/plain", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	fmt.Println(string(answer))
	// Output: POST /chat?id=42: hello
}
