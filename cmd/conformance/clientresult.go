package main

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/switchboard-hub/switchboard/hub"
)

// clientResult asks the connection named behind the prefix for a number. The
// answer is the number, or in its place the text of what went wrong.
func clientResult(h *hub.Hub, prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		n, err := hub.Invoke[int](r.Context(), h.Clients().Client(r.URL.Path[len(prefix):]), "Result")
		text := strconv.Itoa(n)
		if err != nil {
			text = err.Error()
			if forClient, ok := errors.AsType[*hub.Error](err); ok {
				text = forClient.Error()
			}
		}
		writeText(w, http.StatusOK, text)
	}
}
