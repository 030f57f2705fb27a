package transport

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestAllowedOrigins(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []string
		want    []string
		problem string // part of the error
	}{
		{"it takes none", nil, nil, ""},
		{"it takes an empty list", []string{}, nil, ""},
		{"it takes any", []string{"*"}, nil, ""},
		{"it drops a slash", []string{"http://app.example/"}, []string{"http://app.example"}, ""},
		{"it drops the default port of http", []string{"http://app.example:80"}, []string{"http://app.example"}, ""},
		{"it drops the default port of https", []string{"https://app.example:443/"}, []string{"https://app.example"}, ""},
		{"it keeps other ports", []string{"https://app.example:80", "http://localhost:8080"}, []string{"https://app.example:80", "http://localhost:8080"}, ""},
		{"it writes lower case", []string{"HTTPS://App.EXAMPLE"}, []string{"https://app.example"}, ""},
		{"it takes addresses", []string{"http://[::1]:80", "http://127.0.0.1:81"}, []string{"http://[::1]", "http://127.0.0.1:81"}, ""},
		{"it takes other schemes", []string{"capacitor://localhost"}, []string{"capacitor://localhost"}, ""},
		{"it refuses a bare host", []string{"http://ok.example", "APP.example"}, nil, `"APP.example"`},
		{"it refuses a host and port", []string{"app.example:8080"}, nil, `"app.example:8080"`},
		{"it refuses nothing at all", []string{""}, nil, `""`},
		{"it refuses a path", []string{"http://app.example/x"}, nil, `"http://app.example/x"`},
		{"it refuses two slashes", []string{"http://app.example//"}, nil, `"http://app.example//"`},
		{"it refuses a query", []string{"http://app.example?"}, nil, `"http://app.example?"`},
		{"it refuses a fragment", []string{"http://app.example#"}, nil, `"http://app.example#"`},
		{"it refuses a user", []string{"http://me@app.example"}, nil, `"http://me@app.example"`},
		{"it refuses a wildcard in a host", []string{"https://*.app.example"}, nil, `"https://*.app.example"`},
		{"it refuses what is not ASCII", []string{"https://bücher.example"}, nil, `"https://bücher.example"`},
		{"it refuses the scheme of a WebSocket", []string{"wss://app.example"}, nil, `"wss://app.example"`},
		{"it refuses null", []string{"null"}, nil, `"null"`},
		{"it refuses a bad port", []string{"http://app.example:http"}, nil, `"http://app.example:http"`},
		{"it refuses any and one more", []string{"*", "http://app.example"}, nil, `"*"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := New(Options{Open: noOpen, AllowedOrigins: tt.entries})
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), "AllowedOrigins") || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("got %v, want an error about %s", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(e.origins.allowed, tt.want) || e.origins.any != slices.Contains(tt.entries, "*") {
				t.Errorf("got %+v, want %q", e.origins, tt.want)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	const ok, no = 101, 403
	for _, tt := range []struct {
		name    string
		host    string
		headers string
		same    int // with the same origin only
		listed  int // with https://app.example allowed
		any     int // with * allowed
	}{
		{"it takes no origin", "site.example", "", ok, ok, ok},
		{"it takes no origin with a token", "site.example", "Authorization: Bearer x\n", ok, ok, ok},
		{"it takes its own", "site.example", "Origin: http://site.example\n", ok, ok, ok},
		{"it takes its own with a port", "site.example:8080", "Origin: http://site.example:8080\n", ok, ok, ok},
		{"it takes its own with the default port", "site.example:80", "Origin: http://site.example\n", ok, ok, ok},
		{"it takes its own in capitals", "Site.Example", "Origin: HTTP://SITE.example\n", ok, ok, ok},
		{"it takes its own address", "[::1]:8080", "Origin: http://[::1]:8080\n", ok, ok, ok},
		{"it takes its own behind a proxy with TLS", "site.example", "Origin: https://site.example\nX-Forwarded-Proto: https, http\n", ok, ok, ok},
		{"it refuses a stranger", "site.example", "Origin: https://evil.example\n", no, no, ok},
		{"it refuses a listed one unless listed", "site.example", "Origin: https://app.example\n", no, ok, ok},
		{"it refuses null", "site.example", "Origin: null\n", no, no, ok},
		{"it refuses a longer host", "site.example", "Origin: https://site.example.evil.com\n", no, no, ok},
		{"it refuses a host in a path", "site.example", "Origin: https://evil.com/site.example\n", no, no, ok},
		{"it refuses its own with a path", "site.example", "Origin: http://site.example/\n", no, no, ok},
		{"it refuses another port", "site.example", "Origin: http://site.example:8080\n", no, no, ok},
		{"it refuses another port of a listed one", "site.example", "Origin: https://app.example:8443\n", no, no, ok},
		{"it refuses another scheme", "site.example", "Origin: https://site.example\n", no, no, ok},
		{"it refuses another scheme of a listed one", "site.example", "Origin: http://app.example\n", no, no, ok},
		{"it refuses two origins", "site.example", "Origin: http://site.example\nOrigin: http://site.example\n", no, no, no},
		{"it refuses a list of origins", "site.example", "Origin: http://site.example http://evil.example\n", no, no, ok},
		{"it refuses an empty origin", "site.example", "Origin:\n", no, no, ok},
		{"it refuses what is no URL", "site.example", "Origin: http://%zz\n", no, no, ok},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for allowed, want := range map[string]int{"": tt.same, "https://app.example": tt.listed, "*": tt.any} {
				opts := Options{}
				if allowed != "" {
					opts.AllowedOrigins = []string{allowed}
				}
				s := startEcho(t, opts)
				resp := s.do(t, "GET /hub HTTP/1.1\nHost: "+tt.host+"\n"+tt.headers+upgradeHeaders)
				if resp.StatusCode != want {
					t.Errorf("upgrade with %q allowed: got status %d, want %d", allowed, resp.StatusCode, want)
				}
				if want == ok {
					want = 200
				}
				resp = s.do(t, "POST /hub/negotiate HTTP/1.1\nHost: "+tt.host+"\n"+tt.headers+"Content-Length: 0\n")
				if resp.StatusCode != want {
					t.Errorf("negotiate with %q allowed: got status %d, want %d", allowed, resp.StatusCode, want)
				}
			}
		})
	}
}

func TestOriginOverTLS(t *testing.T) {
	s := startTLS(t, Options{}, echo)
	for origin, want := range map[string]int{"https://" + s.addr: 101, "http://" + s.addr: 403} {
		resp := s.do(t, "GET /hub HTTP/1.1\nHost: "+s.addr+"\nOrigin: "+origin+"\nX-Forwarded-Proto: http\n"+upgradeHeaders)
		if resp.StatusCode != want {
			t.Errorf("%s: got status %d, want %d", origin, resp.StatusCode, want)
		}
	}
}

func TestCrossOriginHeaders(t *testing.T) {
	const ask = "Access-Control-Request-Method: POST\nAccess-Control-Request-Headers: x-requested-with,authorization\n"
	listed := startEcho(t, Options{AllowedOrigins: []string{"https://app.example"}})
	anybody := startEcho(t, Options{AllowedOrigins: []string{"*"}})
	for _, tt := range []struct {
		name, request string
		server        *testServer
		code          int
		want          map[string]string // "" means absent
	}{
		{"it answers a preflight", "OPTIONS /hub/negotiate HTTP/1.1\nOrigin: https://app.example\n" + ask, listed, 204, map[string]string{
			"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Credentials": "true",
			"Access-Control-Allow-Methods": "OPTIONS, POST", "Access-Control-Allow-Headers": "x-requested-with,authorization",
			"Access-Control-Max-Age": "600", "Vary": "Origin, Access-Control-Request-Headers",
		}},
		{"it offers the methods of the hub", "OPTIONS /hub HTTP/1.1\nOrigin: https://app.example\nAccess-Control-Request-Method: DELETE\n", listed, 204, map[string]string{
			"Access-Control-Allow-Methods": "DELETE, GET, OPTIONS, POST", "Access-Control-Allow-Headers": "", "Vary": "Origin",
		}},
		{"it leaves out credentials for anybody", "OPTIONS /hub/negotiate HTTP/1.1\nOrigin: https://x.example\n" + ask, anybody, 204, map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "", "Access-Control-Allow-Methods": "OPTIONS, POST",
		}},
		{"it refuses a stranger's preflight", "OPTIONS /hub/negotiate HTTP/1.1\nOrigin: https://evil.example\n" + ask, listed, 403, map[string]string{
			"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": "", "Vary": "Origin",
		}},
		{"it lets a page read the answer", "POST /hub/negotiate HTTP/1.1\nOrigin: https://app.example\nContent-Length: 0\n", listed, 200, map[string]string{
			"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Credentials": "true", "Vary": "Origin",
		}},
		{"it lets a page read an error", "GET /hub?id=x HTTP/1.1\nOrigin: https://app.example\n", listed, 404, map[string]string{
			"Access-Control-Allow-Origin": "https://app.example",
		}},
		{"it says nothing to its own page", "POST /hub/negotiate HTTP/1.1\nOrigin: http://HOST\nContent-Length: 0\n", listed, 200, map[string]string{
			"Access-Control-Allow-Origin": "", "Vary": "Origin",
		}},
		{"it varies without an origin, too", "POST /hub/negotiate HTTP/1.1\nContent-Length: 0\n", listed, 200, map[string]string{
			"Access-Control-Allow-Origin": "", "Vary": "Origin",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.server
			resp := s.do(t, strings.ReplaceAll(tt.request, "HOST", s.addr)+"Host: "+s.addr)
			if resp.StatusCode != tt.code {
				t.Errorf("got status %d, want %d", resp.StatusCode, tt.code)
			}
			for name, want := range tt.want {
				if got := strings.Join(resp.Header.Values(name), ", "); got != want {
					t.Errorf("got %s %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestCrossOriginMiddleware has a policy in front of the endpoint, whose
// headers must stay.
func TestCrossOriginMiddleware(t *testing.T) {
	e, err := New(Options{Open: noOpen, AllowedOrigins: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Access-Control-Allow-Origin": {"https://x.example"}, "Access-Control-Allow-Credentials": {"true"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://site.example/hub/negotiate", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://x.example")
	e.ServeHTTP(headers{discard{}, h}, r)
	if got := h["Access-Control-Allow-Origin"]; !slices.Equal(got, []string{"https://x.example"}) {
		t.Errorf("got %q", got)
	}
}

type headers struct {
	http.ResponseWriter
	h http.Header
}

func (h headers) Header() http.Header { return h.h }

func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"http://app.example:80", "https://[::1]:8443", "null", "", "HTTP://A", "http://a:b@c", "http://a%00b", "A://::0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := canonicalOrigin(s)
		if err != nil {
			return
		}
		if again, err := canonicalOrigin(got); err != nil || again != got {
			t.Errorf("%q is written %q, and that %q, %v", s, got, again, err)
		}
	})
}
