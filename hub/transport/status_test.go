package transport

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestStatusesOfRecords covers what is answered when a token has been used one
// way or another.
func TestStatusesOfRecords(t *testing.T) {
	serve, _, _ := sink()
	s := start(t, Options{}, serve)
	fresh, socket, polling, events := s.restClient(t), s.restClient(t), s.restClient(t), s.restClient(t)
	s.open(t, "?id="+socket.token)
	polling.begin(t)
	events.stream(t, t.Context())
	for _, tt := range []struct {
		name, method, token, accept string
		code                        int
		text                        string
	}{
		{"it wants an id for a poll", "GET", "", "", 400, textNoID},
		{"it wants an id for an event stream", "GET", "", "text/event-stream", 400, textNoID},
		{"it wants an id for a POST", "POST", "", "", 400, textNoID},
		{"it wants an id for a DELETE", "DELETE", "", "", 400, textNoID},
		{"it takes no public id for a poll", "GET", polling.id, "", 404, textUnknownID},
		{"it takes no public id for a POST", "POST", polling.id, "", 404, textUnknownID},
		{"it takes no cut token", "POST", polling.token[:len(polling.token)-1], "", 404, textUnknownID},
		{"it takes no DELETE before a connection", "DELETE", fresh.token, "", 400, textNoDelete},
		{"it takes no poll for a WebSocket", "GET", socket.token, "", 400, textOtherWay},
		{"it takes no event stream for a WebSocket", "GET", socket.token, "text/event-stream", 400, textOtherWay},
		{"it takes no POST for a WebSocket", "POST", socket.token, "", 405, textNoPost},
		{"it takes no DELETE for a WebSocket", "DELETE", socket.token, "", 400, textNoDelete},
		{"it takes no event stream for long polling", "GET", polling.token, "text/event-stream", 400, textOtherWay},
		{"it takes no poll for an event stream", "GET", events.token, "", 400, textOtherWay},
		{"it takes no poll for an event stream that is only accepted", "GET", events.token, "text/event-stream;q=0.9", 400, textOtherWay},
		{"it takes no second event stream", "GET", events.token, "text/event-stream", 409, ""},
		{"it takes no DELETE for an event stream", "DELETE", events.token, "", 400, textNoDelete},
		{"it takes a POST for an event stream", "POST", events.token, "", 200, ""},
		{"it takes a POST for long polling", "POST", polling.token, "", 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query := ""
			if tt.token != "" {
				query = "?id=" + tt.token
			}
			got := s.exchange(t.Context(), tt.method, query, http.NoBody, "Accept", tt.accept)
			if got.code != tt.code || got.body != tt.text {
				t.Errorf("got status %d %q, want %d %q", got.code, got.body, tt.code, tt.text)
			}
			if tt.code != 409 && got.kind != "text/plain" {
				t.Errorf("got type %q", got.kind)
			}
			if tt.method == "GET" && !strings.HasPrefix(tt.accept, "text/event-stream") || strings.Contains(tt.accept, "q=") {
				wantPollHeaders(t, got)
			}
		})
	}
	for _, c := range []*restClient{polling, events} {
		if _, resp := s.tryOpen(t, "?id="+c.token); resp.StatusCode != 400 || body(t, resp) != textOtherWay {
			t.Errorf("WebSocket: got status %d", resp.StatusCode)
		}
	}
	if got := fresh.poll(t); got.code != 200 {
		t.Errorf("the token that was only asked about: got %+v", got)
	}
}

// TestTransportsOff has endpoints that offer only some transports.
func TestTransportsOff(t *testing.T) {
	for _, on := range [][]Kind{{WebSockets}, {ServerSentEvents}, {LongPolling}, {LongPolling, ServerSentEvents}} {
		s := startEcho(t, Options{Transports: on})
		for _, kind := range []Kind{WebSockets, ServerSentEvents, LongPolling} {
			c := s.restClient(t)
			var code int
			var text string
			switch kind {
			case WebSockets:
				_, resp := s.tryOpen(t, "?id="+c.token)
				if code = resp.StatusCode; code != 101 {
					text = body(t, resp)
					if _, resp := s.tryOpen(t, ""); resp.StatusCode != 404 {
						t.Errorf("%v: a WebSocket without id got status %d", on, resp.StatusCode)
					}
				}
			case ServerSentEvents:
				resp := c.tryStream(t, t.Context())
				if code = resp.StatusCode; code != 200 {
					text = body(t, resp)
				}
			case LongPolling:
				got := c.poll(t)
				code, text = got.code, got.body
			}
			want := 200
			if s.endpoint.offers(kind) && kind == WebSockets {
				want = 101
			} else if !s.endpoint.offers(kind) {
				want = 404
			}
			if code != want || want == 404 && text != string(kind)+textUnsupported {
				t.Errorf("%v: %s: got status %d %q, want %d", on, kind, code, text, want)
			}
		}
	}
}

// TestRefreshed asks about every later request, and no first one.
func TestRefreshed(t *testing.T) {
	asked := make(chan string, 16)
	var refusal error
	serve, _, result := sink()
	s := start(t, Options{Refreshed: func(r *http.Request, id string) error {
		asked <- r.Method + " " + id
		return refusal
	}}, serve)
	c := s.restClient(t)
	c.post(t, "hello")
	c.begin(t)
	if len(asked) != 0 {
		t.Errorf("asked %q before the connection was open", <-asked)
	}
	refusal = &StatusError{Code: 403, Text: "not you"}
	for method, f := range map[string]func(testing.TB) answer{"GET": c.poll, "POST": func(t testing.TB) answer { return c.post(t, "x") }, "DELETE": c.delete} {
		if got := f(t); got.code != 403 || got.body != "not you" {
			t.Errorf("%s: got %+v", method, got)
		}
		if got := wait(t, asked); got != method+" "+c.id {
			t.Errorf("asked %q", got)
		}
	}
	refusal = errors.New("a secret")
	if got := c.post(t, "x"); got.code != 401 || got.body != "" {
		t.Errorf("got %+v", got)
	}
	refusal = nil
	if got := c.delete(t); got.code != 202 {
		t.Errorf("got %+v", got)
	}
	if got := wait(t, result); string(got.data) != "hello" {
		t.Errorf("got %q", got.data)
	}
}

func TestMinimumNegotiateVersion(t *testing.T) {
	s := startEcho(t, Options{MinimumNegotiateVersion: 1})
	for query, want := range map[string]string{
		"":                      `{"error":"The client requested version '0', but the server does not support this version."}`,
		"?negotiateVersion=0":   `{"error":"The client requested version '0', but the server does not support this version."}`,
		"?negotiateVersion=-3":  `{"error":"The client requested version '-3', but the server does not support this version."}`,
		"?negotiateVersion=one": `{"error":"The client requested a non-integer protocol version."}`,
	} {
		got := s.exchange(t.Context(), http.MethodPost, "/negotiate"+query, nil)
		if got.code != 200 || got.body != want {
			t.Errorf("%q: got %+v", query, got)
		}
	}
	s.negotiate(t, "?negotiateVersion=1")
	any := startEcho(t, Options{MinimumNegotiateVersion: -1})
	any.negotiate(t, "")
	any.negotiate(t, "?negotiateVersion=-1")
	future := startEcho(t, Options{MinimumNegotiateVersion: 12})
	future.negotiate(t, "?negotiateVersion=12")
	if got := future.exchange(t.Context(), http.MethodPost, "/negotiate?negotiateVersion=1", nil); !strings.Contains(got.body, "version '1'") {
		t.Errorf("got %+v", got)
	}
}
