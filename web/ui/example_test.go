package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/switchboard-hub/switchboard/web/ui"
)

func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/", ui.Handler(ui.Options{
		Hubs:       []string{"/hub"},
		Version:    "1.0.0",
		DemoGroups: []string{"demo/ticks"},
	}))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/assets/config.json", nil))
	fmt.Print(answer.Body)
	// Output: {"hubs":["/hub"],"version":"1.0.0","demoGroups":["demo/ticks"],"targets":["Message","Tick"]}
}
