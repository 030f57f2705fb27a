package transport

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testKeys is a KeySource whose keys and clock a test moves. It must not be
// moved while a request is under way.
type testKeys struct {
	keys []Key
	now  time.Time
}

func (k *testKeys) Keys() []Key    { return k.keys }
func (k *testKeys) Now() time.Time { return k.now }

func newTestKeys() *testKeys {
	return &testKeys{keys: []Key{NewKey()}, now: time.UnixMilli(1_700_000_000_000)}
}

type negotiated struct {
	NegotiateVersion int
	ConnectionID     string
	ConnectionToken  string
}

func (s *testServer) negotiate(t testing.TB, query string) negotiated {
	t.Helper()
	resp := s.do(t, "POST /hub/negotiate"+query+" HTTP/1.1\nHost: "+s.addr+"\nContent-Length: 0\n")
	var n negotiated
	if err := json.Unmarshal([]byte(body(t, resp)), &n); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return n
}

func TestNegotiateAnswer(t *testing.T) {
	s := startEcho(t, Options{})
	const transports = `"availableTransports":[{"transport":"WebSockets","transferFormats":["Text","Binary"]},{"transport":"ServerSentEvents","transferFormats":["Text"]},{"transport":"LongPolling","transferFormats":["Text","Binary"]}]}`
	for _, tt := range []struct{ name, path, want string }{
		{"it answers version 1", "/hub/negotiate?negotiateVersion=1", `{"negotiateVersion":1,"connectionId":"ID","connectionToken":"TOKEN",` + transports},
		{"it answers version 0", "/hub/negotiate?negotiateVersion=0", `{"negotiateVersion":0,"connectionId":"ID",` + transports},
		{"it takes no version for 0", "/hub/negotiate", `{"negotiateVersion":0,"connectionId":"ID",` + transports},
		{"it answers its own version to a newer client", "/hub/negotiate?negotiateVersion=7", `{"negotiateVersion":1,"connectionId":"ID","connectionToken":"TOKEN",` + transports},
		{"it reads keys in any case", "/hub/negotiate?NEGOTIATEVERSION=1", `{"negotiateVersion":1,"connectionId":"ID","connectionToken":"TOKEN",` + transports},
		{"it ignores what it does not know", "/hub/negotiate?x=1&negotiateVersion=1&y=%zz&;=&_=17", `{"negotiateVersion":1,"connectionId":"ID","connectionToken":"TOKEN",` + transports},
		{"it claims no stateful reconnect", "/hub/negotiate?negotiateVersion=1&useStatefulReconnect=true", `{"negotiateVersion":1,"connectionId":"ID","connectionToken":"TOKEN",` + transports},
		{"it refuses a version that is no number", "/hub/negotiate?negotiateVersion=one", `{"error":"The client requested a non-integer protocol version."}`},
		{"it refuses an empty version", "/hub/negotiate?negotiateVersion=", `{"error":"The client requested a non-integer protocol version."}`},
		{"it refuses two versions", "/hub/negotiate?negotiateVersion=1&negotiateVersion=1", `{"error":"The client requested a non-integer protocol version."}`},
		{"it refuses a version too large to read", "/hub/negotiate?negotiateVersion=2147483648", `{"error":"The client requested a non-integer protocol version."}`},
		{"it refuses a version below 0", "/hub/negotiate?negotiateVersion=-1", `{"error":"The client requested version '-1', but the server does not support this version."}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := s.do(t, "POST "+tt.path+" HTTP/1.1\nHost: "+s.addr+"\nContent-Length: 0\n")
			got := body(t, resp)
			var n negotiated
			if err := json.Unmarshal([]byte(got), &n); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if n.ConnectionID != "" {
				want = strings.NewReplacer("ID", n.ConnectionID, "TOKEN", n.ConnectionToken).Replace(want)
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Content-Length") != strconv.Itoa(len(got)) {
				t.Errorf("got status %d and %v", resp.StatusCode, resp.Header)
			}
			if n.NegotiateVersion == 1 && (len(n.ConnectionID) != 22 || len(n.ConnectionToken) <= 22 || strings.Contains(n.ConnectionToken, n.ConnectionID)) {
				t.Errorf("got id %q and token %q", n.ConnectionID, n.ConnectionToken)
			}
		})
	}
}

func TestNegotiateStatefulReconnect(t *testing.T) {
	s := startEcho(t, Options{AllowStatefulReconnects: true})
	for query, want := range map[string]bool{
		"?negotiateVersion=1&useStatefulReconnect=true":  true,
		"?negotiateVersion=1&UseStatefulReconnect=True":  true,
		"?negotiateVersion=1&useStatefulReconnect=false": false,
		"?negotiateVersion=1&useStatefulReconnect=":      false,
		"?negotiateVersion=1":                            false,
		"?negotiateVersion=0&useStatefulReconnect=true":  false,
		"?useStatefulReconnect=true":                     false,
	} {
		got := s.exchange(t.Context(), http.MethodPost, "/negotiate"+query, nil).body
		if strings.Contains(got, "useStatefulReconnect") != want {
			t.Errorf("%s: got %s", query, got)
		}
		if want && !strings.HasPrefix(got, `{"useStatefulReconnect":true,"negotiateVersion":1,"connectionId":"`) {
			t.Errorf("%s: got %s", query, got)
		}
	}
}

func TestNegotiateRefuses(t *testing.T) {
	s := startEcho(t, Options{})
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
		resp := s.do(t, method+" /hub/negotiate?negotiateVersion=1 HTTP/1.1\nHost: "+s.addr+"\n")
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.ContentLength != 0 || resp.Header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("%s: got status %d, length %d, Allow %q", method, resp.StatusCode, resp.ContentLength, resp.Header.Get("Allow"))
		}
	}
	s.endpoint.Refuse(&StatusError{Code: http.StatusServiceUnavailable, Text: "Draining", RetryAfter: 1500 * time.Millisecond})
	resp := s.do(t, "POST /hub/negotiate?negotiateVersion=1 HTTP/1.1\nHost: "+s.addr+"\nContent-Length: 0\n")
	if got := body(t, resp); resp.StatusCode != http.StatusServiceUnavailable || got != "Draining" || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("got status %d %q, Retry-After %q", resp.StatusCode, got, resp.Header.Get("Retry-After"))
	}
	s.endpoint.Refuse(nil)
	s.negotiate(t, "?negotiateVersion=1")
	want := map[Refusal]uint64{RefusedMethod: 4, RefusedUnavailable: 1}
	for why, n := range s.endpoint.Stats().Refused {
		if n != want[why] {
			t.Errorf("refused %d for %v, want %d", n, why, want[why])
		}
	}
}

func TestNegotiateNeedsKeys(t *testing.T) {
	s := startEcho(t, Options{Keys: &testKeys{}})
	resp := s.do(t, "POST /hub/negotiate?negotiateVersion=1 HTTP/1.1\nHost: "+s.addr+"\nContent-Length: 0\n")
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", resp.StatusCode)
	}
}

// TestTokenOpensOneConnection follows tokens through their whole life, between
// two instances that share keys.
func TestTokenOpensOneConnection(t *testing.T) {
	keys := newTestKeys()
	a := startEcho(t, Options{Keys: keys, Instance: "a", Advertise: freeAddress(t), TokenLifetime: 15 * time.Second})
	b := startEcho(t, Options{Keys: keys, Instance: "b"})
	foreign := startEcho(t, Options{})
	refused := func(s *testServer, id string, code int, text string) {
		t.Helper()
		_, resp := s.tryOpen(t, "?id="+id)
		if got := body(t, resp); resp.StatusCode != code || got != text {
			t.Errorf("got status %d %q, want %d %q", resp.StatusCode, got, code, text)
		}
	}
	end := func(s *testServer, c *rawConn) {
		t.Helper()
		c.Close()
		if err := s.endpoint.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	n := a.negotiate(t, "?negotiateVersion=1")
	refused(a, n.ConnectionID, 404, textUnknownID)
	refused(a, n.ConnectionToken[1:], 404, textUnknownID)
	refused(a, n.ConnectionToken+"&id="+n.ConnectionToken, 404, textUnknownID)
	refused(a, "garbage", 404, textUnknownID)
	refused(foreign, n.ConnectionToken, 404, textUnknownID)

	keys.now = keys.now.Add(14 * time.Second)
	c := a.open(t, "?id="+n.ConnectionToken)
	refused(a, n.ConnectionToken, 409, "")
	keys.now = keys.now.Add(time.Second)
	refused(a, n.ConnectionToken, 409, "") // expired, but alive
	end(a, c)
	refused(a, n.ConnectionToken, 404, textUnknownID) // expired and over

	n = a.negotiate(t, "?negotiateVersion=1")
	c = b.open(t, "?x=1&ID="+n.ConnectionToken+"&y=2")
	refused(b, n.ConnectionToken, 409, "")
	end(b, c)
	refused(b, n.ConnectionToken, 404, textUnknownID) // spent

	n = a.negotiate(t, "?negotiateVersion=1")
	keys.now = keys.now.Add(15 * time.Second)
	refused(a, n.ConnectionToken, 404, textUnknownID)
	refused(b, n.ConnectionToken, 404, textUnknownID)

	n = a.negotiate(t, "?negotiateVersion=1")
	keys.keys = append([]Key{NewKey()}, keys.keys...) // rotated once
	end(b, b.open(t, "?id="+n.ConnectionToken))
	n = a.negotiate(t, "?negotiateVersion=1")
	keys.keys = keys.keys[:1]
	end(b, b.open(t, "?id="+n.ConnectionToken))
	n = a.negotiate(t, "?negotiateVersion=1")
	keys.keys = []Key{NewKey()} // forgotten
	refused(a, n.ConnectionToken, 404, textUnknownID)

	refusals := a.endpoint.Stats().Refused
	for why, want := range map[Refusal]uint64{RefusedUnknownID: 5, RefusedIDInUse: 2, RefusedExpiredID: 2} {
		if refusals[why] != want {
			t.Errorf("a refused %d for %v, want %d", refusals[why], why, want)
		}
	}
	if got := b.endpoint.Stats().Refused[RefusedSpentID]; got != 1 {
		t.Errorf("b refused %d spent tokens, want 1", got)
	}
}

func TestConnectionIDs(t *testing.T) {
	ids := make(chan string, 1)
	s := start(t, Options{}, func(c Conn) {
		ids <- c.ID()
		echo(c)
	})
	n := s.negotiate(t, "?negotiateVersion=1")
	s.open(t, "?id="+n.ConnectionToken)
	if got := <-ids; got != n.ConnectionID {
		t.Errorf("version 1: got id %q, want %q", got, n.ConnectionID)
	}
	n = s.negotiate(t, "")
	s.open(t, "?id="+n.ConnectionID)
	if got := <-ids; got != n.ConnectionID {
		t.Errorf("version 0: got id %q, want %q", got, n.ConnectionID)
	}
	for _, query := range []string{"", "?id=", "?x=1"} {
		s.open(t, query)
		id := <-ids
		if raw, err := base64.RawURLEncoding.DecodeString(id); err != nil || len(raw) != 16 {
			t.Errorf("not negotiated: got id %q", id)
		}
		if _, resp := s.tryOpen(t, "?id="+id); resp.StatusCode != http.StatusNotFound {
			t.Errorf("the id of a connection that was not negotiated got status %d, want 404", resp.StatusCode)
		}
	}
}

func TestPendingNegotiationsCostNothing(t *testing.T) {
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) { return echo, nil }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/hub/negotiate?negotiateVersion=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		e.ServeHTTP(discard{}, r)
	}
	if got := e.Stats().Negotiated; got != 2000 {
		t.Errorf("negotiated %d, want 2000", got)
	}
	c := e.opts.Claims.(*memoryClaims)
	if n := len(c.live) + len(c.young.spent) + len(c.old.spent); n != 0 {
		t.Errorf("%d tokens are remembered, want 0", n)
	}
}

// discard is a ResponseWriter that cannot be hijacked.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
