package ui

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/web/vendor"
)

// serve sends one request to a handler made of o.
func serve(t *testing.T, o Options, method, target string, header http.Header) *http.Response {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for name, values := range header {
		request.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	Handler(o).ServeHTTP(recorder, request)
	return recorder.Result()
}

func TestHandlerServes(t *testing.T) {
	tests := []struct {
		name, path, contentType, contains string
	}{
		{"it serves the page at the root", "/", "text/html; charset=utf-8", "<title>Switchboard</title>"},
		{"it serves modules", "/assets/app.mjs", "text/javascript; charset=utf-8", "import "},
		{"it serves the style", "/assets/style.css", "text/css; charset=utf-8", ":root"},
		{"it serves the icon", "/assets/icon.svg", "image/svg+xml", "<svg"},
		{"it serves the configuration", "/assets/config.json", "application/json", `"hubs"`},
		{"it serves the client library", "/vendor/" + vendor.SignalR, "text/javascript; charset=utf-8", "HubConnectionBuilder"},
		{"it serves the MessagePack protocol", "/vendor/" + vendor.MessagePack, "text/javascript; charset=utf-8", "MessagePackHubProtocol"},
		{"it serves the licence of the client library", "/vendor/" + vendor.SignalRLicense, "text/plain; charset=utf-8", "MIT License"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := serve(t, Options{}, http.MethodGet, tt.path, nil)
			body := readBody(t, response)
			if response.StatusCode != http.StatusOK {
				t.Fatalf("GET %s: status %d, want 200", tt.path, response.StatusCode)
			}
			if got := response.Header.Get("Content-Type"); got != tt.contentType {
				t.Errorf("GET %s: Content-Type %q, want %q", tt.path, got, tt.contentType)
			}
			if !strings.Contains(body, tt.contains) {
				t.Errorf("GET %s: body does not contain %q", tt.path, tt.contains)
			}
		})
	}
}

func TestHandlerRefuses(t *testing.T) {
	tests := []struct {
		name, method, path string
		status             int
	}{
		{"it does not know other paths", http.MethodGet, "/nothing", http.StatusNotFound},
		{"it lists no directory", http.MethodGet, "/assets/", http.StatusNotFound},
		{"it serves the page under one path only", http.MethodGet, "/assets/index.html", http.StatusNotFound},
		{"it leaves its directory for nobody", http.MethodGet, "/assets/../handler.go", http.StatusNotFound},
		{"it answers an unknown path before the method", http.MethodPost, "/nothing", http.StatusNotFound},
		{"it refuses POST", http.MethodPost, "/", http.StatusMethodNotAllowed},
		{"it refuses DELETE", http.MethodDelete, "/assets/app.mjs", http.StatusMethodNotAllowed},
		{"it refuses OPTIONS", http.MethodOptions, "/", http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			response := serve(t, Options{}, tt.method, tt.path, nil)
			if response.StatusCode != tt.status {
				t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, response.StatusCode, tt.status)
			}
			wantAllow := ""
			if tt.status == http.StatusMethodNotAllowed {
				wantAllow = "GET, HEAD"
			}
			if got := response.Header.Get("Allow"); got != wantAllow {
				t.Errorf("%s %s: Allow %q, want %q", tt.method, tt.path, got, wantAllow)
			}
			if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s %s: X-Content-Type-Options %q, want nosniff", tt.method, tt.path, got)
			}
		})
	}
}

func TestHandlerSetsSecurityHeaders(t *testing.T) {
	want := map[string]string{
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-cache",
	}
	for _, path := range []string{"/", "/assets/app.mjs", "/assets/config.json", "/vendor/" + vendor.SignalR} {
		response := serve(t, Options{}, http.MethodGet, path, nil)
		for name, value := range want {
			if got := response.Header.Get(name); got != value {
				t.Errorf("GET %s: %s %q, want %q", path, name, got, value)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("the policy allows too much: %s", policy)
	}
}

func TestHandlerRevalidates(t *testing.T) {
	first := serve(t, Options{}, http.MethodGet, "/assets/app.mjs", nil)
	etag := first.Header.Get("ETag")
	if !strings.HasPrefix(etag, `"`) || len(etag) < 10 {
		t.Fatalf("ETag %q is not a strong tag", etag)
	}

	same := serve(t, Options{}, http.MethodGet, "/assets/app.mjs", http.Header{"If-None-Match": {etag}})
	if same.StatusCode != http.StatusNotModified || readBody(t, same) != "" {
		t.Errorf("with its own ETag: status %d, want 304 without a body", same.StatusCode)
	}
	other := serve(t, Options{}, http.MethodGet, "/assets/app.mjs", http.Header{"If-None-Match": {`"other"`}})
	if other.StatusCode != http.StatusOK {
		t.Errorf("with another ETag: status %d, want 200", other.StatusCode)
	}

	one := serve(t, Options{Version: "1"}, http.MethodGet, "/assets/config.json", nil).Header.Get("ETag")
	two := serve(t, Options{Version: "2"}, http.MethodGet, "/assets/config.json", nil).Header.Get("ETag")
	if one == two {
		t.Errorf("two versions of the configuration share the ETag %s", one)
	}
}

func TestHandlerAnswersHeadWithoutBody(t *testing.T) {
	response := serve(t, Options{}, http.MethodHead, "/", nil)
	if response.StatusCode != http.StatusOK || response.ContentLength <= 0 || readBody(t, response) != "" {
		t.Errorf("HEAD /: status %d, length %d, want 200, the length of the page and no body", response.StatusCode, response.ContentLength)
	}
}

func TestHandlerConfiguration(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    config
	}{
		{
			"it has defaults",
			Options{},
			config{Hubs: []string{"/hub"}, DemoGroups: []string{}, Targets: []string{"Message", "Tick"}},
		},
		{
			"it passes everything on",
			Options{Hubs: []string{"/a", "/b"}, Version: "1.2.3", DemoGroups: []string{"demo/ticks"}, Targets: []string{"News"}},
			config{Hubs: []string{"/a", "/b"}, Version: "1.2.3", DemoGroups: []string{"demo/ticks"}, Targets: []string{"News"}},
		},
		{
			"it keeps hostile strings as data",
			Options{Hubs: []string{"/hub"}, Version: `</script><img src=x onerror=alert(1)>`, Targets: []string{"a\u2028\"'&"}},
			config{Hubs: []string{"/hub"}, Version: `</script><img src=x onerror=alert(1)>`, DemoGroups: []string{}, Targets: []string{"a\u2028\"'&"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := readBody(t, serve(t, tt.options, http.MethodGet, "/assets/config.json", nil))
			if strings.ContainsAny(body, "<>&\u2028") || strings.Contains(body, "null") {
				t.Errorf("configuration %s holds markup or null", body)
			}
			var got config
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if got.Version != tt.want.Version || !slices.Equal(got.Hubs, tt.want.Hubs) ||
				!slices.Equal(got.DemoGroups, tt.want.DemoGroups) || !slices.Equal(got.Targets, tt.want.Targets) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestHandlerCopiesOptions(t *testing.T) {
	hubs := []string{"/hub"}
	h := Handler(Options{Hubs: hubs})
	hubs[0] = "/changed"
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/assets/config.json", nil))
	if body := recorder.Body.String(); !strings.Contains(body, `"/hub"`) {
		t.Errorf("configuration %s changed with the caller's slice", body)
	}
}

// The page and its modules load only what is served, and nothing that the
// policy would block.
func TestPageRefersToServedFilesOnly(t *testing.T) {
	page := readBody(t, serve(t, Options{}, http.MethodGet, "/", nil))
	references := regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1)
	if len(references) < 5 {
		t.Fatalf("found only %d references in the page", len(references))
	}
	for _, reference := range references {
		if status := serve(t, Options{}, http.MethodGet, reference[1], nil).StatusCode; status != http.StatusOK {
			t.Errorf("the page refers to %s: status %d", reference[1], status)
		}
	}
	if inline := regexp.MustCompile(`(?i)\s(style|on[a-z]+)=|<style|<script>|javascript:`).FindString(page); inline != "" {
		t.Errorf("the page has inline style or script: %q", inline)
	}
}

func TestModulesImportServedFilesAndWriteNoMarkup(t *testing.T) {
	names, err := fs.Glob(assets, "assets/*.mjs")
	if err != nil || len(names) == 0 {
		t.Fatalf("modules: %v, %v", names, err)
	}
	imports := regexp.MustCompile(`(?:from|import\() ?"\./([^"]+)"`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|https?://[^w]`)
	for _, name := range names {
		body, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range imports.FindAllSubmatch(body, -1) {
			if _, err := fs.Stat(assets, "assets/"+string(imported[1])); err != nil {
				t.Errorf("%s imports %s: %v", name, imported[1], err)
			}
		}
		if found := markup.Find(body); found != nil {
			t.Errorf("%s uses %s", name, found)
		}
	}
}

func readBody(t *testing.T, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	var body strings.Builder
	if _, err := io.Copy(&body, response.Body); err != nil {
		t.Fatal(err)
	}
	return body.String()
}
