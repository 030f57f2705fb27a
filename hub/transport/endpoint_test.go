package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestNewRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	for field, opts := range map[string]Options{
		"Open":                  {},
		"Transports":            {Open: noOpen, Transports: []Kind{"Carrier pigeons"}},
		"Transports: \"Web":     {Open: noOpen, Transports: []Kind{WebSockets, WebSockets}},
		"Instance":              {Open: noOpen, Instance: long},
		"Advertise":             {Open: noOpen, Advertise: long},
		"TokenLifetime":         {Open: noOpen, TokenLifetime: -1},
		"WebSocketCloseTimeout": {Open: noOpen, WebSocketCloseTimeout: -1},
		"MaxConnections":        {Open: noOpen, MaxConnections: -1},
		"DisconnectTimeout":     {Open: noOpen, DisconnectTimeout: -1},
		"PollTimeout":           {Open: noOpen, PollTimeout: -1},
		"MaxPending":            {Open: noOpen, MaxPending: -1},
		"AllowedOrigins":        {Open: noOpen, AllowedOrigins: []string{"x"}},
		"CookieCredentials":     {Open: noOpen, AllowedOrigins: []string{"*"}, CookieCredentials: true},
	} {
		if _, err := New(opts); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error that names %s", err, field)
		}
	}
}

func TestAuthorize(t *testing.T) {
	type user struct{}
	names := make(chan any, 1)
	s := startEcho(t, Options{
		AllowedOrigins: []string{"https://app.example"},
		Authorize: func(r *http.Request) (context.Context, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer ann":
				return context.WithValue(r.Context(), user{}, "ann"), nil
			case "Bearer bob":
				return nil, nil
			case "Bearer eve":
				return nil, &StatusError{Code: http.StatusForbidden, Text: "not you"}
			}
			return nil, errors.New("a secret")
		},
		Open: func(r *http.Request, _ Info) (func(Conn), error) {
			names <- r.Context().Value(user{})
			return echo, nil
		},
	})
	for _, request := range []string{
		"POST /hub/negotiate HTTP/1.1\nContent-Length: 0\n", "GET /hub/negotiate HTTP/1.1\n", "POST /hub?id=x HTTP/1.1\nContent-Length: 0\n",
		"DELETE /hub HTTP/1.1\n", "PUT /hub HTTP/1.1\nContent-Length: 0\n", "GET /hub HTTP/1.1\n" + upgradeHeaders,
	} {
		request = strings.Replace(request, "\n", "\nHost: "+s.addr+"\nOrigin: https://app.example\n", 1)
		resp := s.do(t, request)
		h := resp.Header
		if got := body(t, resp); resp.StatusCode != 401 || got != "" || resp.ContentLength != 0 || h.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s\ngot status %d %q, %v", request, resp.StatusCode, got, h)
		}
		if h.Get("Access-Control-Allow-Origin") != "https://app.example" {
			t.Errorf("%s\ngot no cross-origin headers with the 401", request)
		}
		resp = s.do(t, request+"Authorization: Bearer eve\n")
		if got := body(t, resp); resp.StatusCode != 403 || got != "not you" {
			t.Errorf("%s\ngot status %d %q", request, resp.StatusCode, got)
		}
	}
	resp := s.do(t, "OPTIONS /hub HTTP/1.1\nHost: x\nOrigin: https://app.example\nAccess-Control-Request-Method: GET\n")
	if resp.StatusCode != 204 {
		t.Errorf("a preflight got status %d", resp.StatusCode)
	}
	for name, want := range map[string]any{"ann": "ann", "bob": nil} {
		conn := s.dial(t)
		resp := roundTrip(t, conn, newReader(conn), "GET /hub HTTP/1.1\nHost: "+s.addr+"\nAuthorization: Bearer "+name+"\n"+upgradeHeaders)
		if resp.StatusCode != 101 {
			t.Fatalf("%s: got status %d", name, resp.StatusCode)
		}
		if got := <-names; got != want {
			t.Errorf("%s: Open saw %v, want %v", name, got, want)
		}
		conn.Close()
	}
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	refusal := error(nil)
	var infos []Info
	s := startEcho(t, Options{Open: func(_ *http.Request, c Info) (func(Conn), error) {
		infos = append(infos, c)
		return echo, refusal
	}})
	n := s.negotiate(t, "?negotiateVersion=1")
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{errors.New("a secret"), 500, ""},
		{&StatusError{Code: 429, Text: "slow down", RetryAfter: time.Minute}, 429, "slow down"},
		{errors.Join(errors.New("x"), &StatusError{Code: 401}), 401, ""},
		{&StatusError{Code: 200, Text: "no refusal"}, 500, "no refusal"},
	} {
		refusal = tt.err
		_, resp := s.tryOpen(t, "?id="+n.ConnectionToken)
		if got := body(t, resp); resp.StatusCode != tt.code || got != tt.text {
			t.Errorf("%v: got status %d %q", tt.err, resp.StatusCode, got)
		}
	}
	refusal = nil
	c := s.open(t, "?id="+n.ConnectionToken) // unspent by the refusals
	c.Close()
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if want := (Info{ID: n.ConnectionID, Kind: WebSockets, Negotiated: true}); info != want {
			t.Errorf("got %+v, want %+v", info, want)
		}
	}
	if got := s.endpoint.Stats(); got.Refused[RefusedByOpen] != 4 || got.Accepted != 1 || got.Negotiated != 1 || got.Open != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestRefuseAndWait(t *testing.T) {
	s := startEcho(t, Options{})
	n := s.negotiate(t, "?negotiateVersion=1")
	c := s.open(t, "")
	s.endpoint.Refuse(&StatusError{Code: 503, RetryAfter: time.Second})
	for _, query := range []string{"", "?id=" + n.ConnectionToken} {
		if _, resp := s.tryOpen(t, query); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%q: got status %d %v", query, resp.StatusCode, resp.Header)
		}
	}
	c.writeFrame(t, 0x81, []byte("still here"))
	if got := c.readFrame(t); string(got.payload) != "still here" {
		t.Errorf("got %q", got.payload)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.endpoint.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v with a connection open", err)
	}
	done := make(chan error)
	for range 2 {
		go func() { done <- s.endpoint.Wait(t.Context()) }()
	}
	c.Close()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s.endpoint.Refuse(nil)
	s.open(t, "?id="+n.ConnectionToken)
}

func TestMaxConnections(t *testing.T) {
	s := startEcho(t, Options{MaxConnections: 1})
	c := s.open(t, "")
	n := s.negotiate(t, "?negotiateVersion=1")
	if _, resp := s.tryOpen(t, "?id="+n.ConnectionToken); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got status %d %v", resp.StatusCode, resp.Header)
	}
	if got := s.endpoint.Stats(); got.Open != 1 || got.Refused[RefusedFull] != 1 {
		t.Errorf("got %+v", got)
	}
	c.Close()
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.open(t, "?id="+n.ConnectionToken)
}

func TestClaimsDecide(t *testing.T) {
	claims := &fakeClaims{}
	s := startEcho(t, Options{Claims: claims})
	n := s.negotiate(t, "?negotiateVersion=1")
	for _, tt := range []struct {
		err  error
		code int
		why  Refusal
	}{
		{ErrTokenInUse, 409, RefusedIDInUse},
		{ErrTokenSpent, 404, RefusedSpentID},
		{ErrClaimsFull, 503, RefusedClaims},
		{errors.New("nobody answers"), 503, RefusedClaims},
	} {
		claims.err = tt.err
		before := s.endpoint.Stats().Refused[tt.why]
		if _, resp := s.tryOpen(t, "?id="+n.ConnectionToken); resp.StatusCode != tt.code {
			t.Errorf("%v: got status %d, want %d", tt.err, resp.StatusCode, tt.code)
		}
		if got := s.endpoint.Stats().Refused[tt.why]; got != before+1 {
			t.Errorf("%v: counted %d times for %v", tt.err, got-before, tt.why)
		}
	}
}

type fakeClaims struct{ err error }

func (f *fakeClaims) Claim(context.Context, string, time.Time) error { return f.err }
func (f *fakeClaims) Release(string, time.Time, bool)                {}
func (f *fakeClaims) InUse(string) bool                              { return false }

func TestOpenPanics(t *testing.T) {
	s := startEcho(t, Options{Open: func(*http.Request, Info) (func(Conn), error) { panic(http.ErrAbortHandler) }})
	n := s.negotiate(t, "?negotiateVersion=1")
	for range 2 { // the token stays unspent, and nothing is left behind
		conn := s.dial(t)
		if _, err := conn.Write([]byte(strings.ReplaceAll("GET /hub?id="+n.ConnectionToken+" HTTP/1.1\nHost: x\n"+upgradeHeaders+"\n", "\n", "\r\n"))); err != nil {
			t.Fatal(err)
		}
		if _, err := newReader(conn).ReadByte(); err == nil {
			t.Error("got an answer")
		}
	}
	if got := s.endpoint.Stats(); got.Open != 0 || got.Refused[RefusedIDInUse] != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestRefusalNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Refusal(refusals) {
		name := r.String()
		if name == "" || name == "unknown" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[name] = true
	}
	if got := Refusal(refusals).String(); got != "unknown" {
		t.Errorf("got %q", got)
	}
}

// TestWarnsSeldom has more causes for a warning than a log should hold.
func TestWarnsSeldom(t *testing.T) {
	log := &lines{}
	s := startEcho(t, Options{Logger: log.logger()})
	for range 20 {
		s.do(t, "GET /hub HTTP/1.1\nHost: site.example\nOrigin: https://evil.example\n"+upgradeHeaders)
		s.do(t, "GET /hub HTTP/1.1\nHost: "+s.addr+"\nSec-WebSocket-Version: 13\n")
	}
	if n := strings.Count(log.all(), "\n"); n != 1 {
		t.Errorf("got %d warnings, want 1:\n%s", n, log.all())
	}
}

// elsewhereClaims are of a fleet whose other instances hold every token.
type elsewhereClaims struct{ fakeClaims }

func (*elsewhereClaims) InUseElsewhere(context.Context, string) bool { return true }

func TestATokenThatLivesElsewhere(t *testing.T) {
	s := startEcho(t, Options{Claims: &elsewhereClaims{}, TokenLifetime: time.Nanosecond})
	n := s.negotiate(t, "?negotiateVersion=1")
	query := "?id=" + n.ConnectionToken
	if _, resp := s.tryOpen(t, query); resp.StatusCode != http.StatusConflict {
		t.Errorf("a second socket: got %d, want 409", resp.StatusCode)
	}
	for method, want := range map[string]int{"GET": 400, "POST": 405, "DELETE": 400} {
		if got := s.exchange(t.Context(), method, query, nil); got.code != want {
			t.Errorf("%s: got %+v, want %d", method, got, want)
		}
	}
}

func TestCookieCredentials(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers string
		query   string
		want    int
	}{
		{"it refuses a cookie alone", "Cookie: a=b\n", "", 403},
		{"it takes a cookie from its own page", "Cookie: a=b\nOrigin: http://site.example\n", "", 101},
		{"it takes a cookie beside a token", "Cookie: a=b\nAuthorization: Bearer x\n", "", 101},
		{"it takes a cookie beside a token in the query", "Cookie: a=b\n", "?access_token=x", 101},
		{"it takes none", "", "", 101},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startEcho(t, Options{CookieCredentials: true})
			resp := s.do(t, "GET /hub"+tt.query+" HTTP/1.1\nHost: site.example\n"+tt.headers+upgradeHeaders)
			if resp.StatusCode != tt.want {
				t.Errorf("got %d, want %d", resp.StatusCode, tt.want)
			}
		})
	}
	s := startEcho(t, Options{})
	if resp := s.do(t, "GET /hub HTTP/1.1\nHost: site.example\nCookie: a=b\n"+upgradeHeaders); resp.StatusCode != 101 {
		t.Errorf("without the option: got %d", resp.StatusCode)
	}
}

// TestMiddlewareWithoutDeadlines: an event stream whose writes nothing bounds is
// refused, and the log says why.
func TestMiddlewareWithoutDeadlines(t *testing.T) {
	type flusher interface {
		http.ResponseWriter
		http.Flusher
	}
	var log bytes.Buffer
	e, err := New(Options{Open: noOpen, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	n := token{until: time.Now().Add(time.Minute), id: newID(), owner: e.owner}
	k := e.opts.Keys.Keys()
	n.sign(&k[0])
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.ServeHTTP(struct{ flusher }{w.(flusher)}, r) // as logging wrappers are
	}))
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/hub?id="+n.text, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(log.String(), "Unwrap") {
		t.Errorf("got %d, log %q", resp.StatusCode, log.String())
	}
}
