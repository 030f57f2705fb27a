package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for one thing.
const patience = 20 * time.Second

// A hosted is the program, running in this process.
type hosted struct {
	http, https string // "http://127.0.0.1:PORT"
	client      *http.Client
	stop        func() int // ends it politely and returns its exit code
}

// start runs the program until the test ends.
func start(t testing.TB, args ...string) *hosted {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	code := make(chan int, 1)
	var running sync.WaitGroup
	running.Go(func() {
		defer in.Close()
		code <- run(ctx, append([]string{"-https", "127.0.0.1:0"}, args...), in, io.Discard)
	})
	lines := bufio.NewScanner(out)
	h := &hosted{client: &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}, // the certificate was made a moment ago
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, to := range []struct {
		address *string
		prefix  string
	}{{&h.http, "Now listening on: http://127.0.0.1:"}, {&h.https, "Now listening on: https://127.0.0.1:"}} {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), to.prefix) {
			cancel()
			t.Fatalf("got line %q, want %s…", lines.Text(), to.prefix)
		}
		*to.address = strings.TrimPrefix(lines.Text(), "Now listening on: ")
	}
	running.Go(func() { _, _ = io.Copy(io.Discard, out) }) // nothing more is expected
	h.stop = sync.OnceValue(func() int {
		h.client.CloseIdleConnections()
		cancel()
		running.Wait()
		return <-code
	})
	t.Cleanup(func() { h.stop() })
	return h
}

// An answer is what came back for a request.
type answer struct {
	*http.Response
	text string
}

// ask makes one request; headers are name and value in turns.
func (h *hosted) ask(t testing.TB, method, url string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := h.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}
}

func TestHostAnswersAsClientsExpect(t *testing.T) {
	static := t.TempDir()
	if err := os.WriteFile(filepath.Join(static, "script.js"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, "-static", static)
	const origin = "http://localhost:1"
	for _, base := range []string{h.http, h.https} {
		for _, tt := range []struct {
			name, method, path string
			headers            []string
			status             int
			text               string            // exactly; "…" for anything
			want               map[string]string // headers; "" means none
			cookies            int
		}{
			{"it negotiates and sets cookies", "POST", "/testhub/negotiate?negotiateVersion=1", nil, 200, "…", map[string]string{"Content-Type": "application/json"}, 3},
			{"it matches paths in any case", "POST", "/TestHub/Negotiate", nil, 200, "…", nil, 3},
			{"it sets one cookie more for the second family", "POST", "/default/negotiate", nil, 200, "…", nil, 4},
			{"it refuses strangers with nothing in it", "POST", "/authorizedhub/negotiate", []string{"Origin", origin}, 401, "", map[string]string{"Content-Length": "0", "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true"}, 3},
			{"it says what clients show", "POST", "/bad-negotiate/negotiate", nil, 400, "Some response from server", map[string]string{"Content-Length": "25"}, 3},
			{"it redirects with the method kept", "POST", "/echoredirect/negotiate?negotiateVersion=1", []string{"Origin", origin}, 307, "", map[string]string{"Location": "/echo/negotiate?negotiateVersion=1", "Access-Control-Allow-Origin": origin}, 0},
			{"it answers preflights before all else", "OPTIONS", "/authorizedhub/negotiate", []string{"Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-a,x-b"}, 204, "", map[string]string{
				"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "x-a,x-b",
			}, 0},
			{"it serves files", "GET", "/script.js", nil, 200, "1", map[string]string{"Access-Control-Allow-Origin": ""}, 0},
			{"it serves files of its directory only", "GET", "/..%2f..%2fetc%2fpasswd", nil, 404, "…", nil, 0},
			{"it issues tokens by GET only", "POST", "/generateJwtToken", nil, 405, "", nil, 0},
			{"it knows no other paths", "GET", "/nothing", nil, 404, "…", nil, 0},
			{"it says who is not there", "GET", "/clientresult/nobody", nil, 200, "…", nil, 0},
			{"it knows no such connection", "DELETE", "/testhub?id=x", nil, 404, "No Connection with that ID", nil, 0},
		} {
			scheme, _, _ := strings.Cut(base, ":")
			t.Run(scheme+": "+tt.name, func(t *testing.T) {
				got := h.ask(t, tt.method, base+tt.path, tt.headers...)
				if got.StatusCode != tt.status || tt.text != "…" && got.text != tt.text {
					t.Errorf("got %d %q, want %d %q", got.StatusCode, got.text, tt.status, tt.text)
				}
				for name, want := range tt.want {
					if got := got.Header.Get(name); got != want {
						t.Errorf("%s: got %q, want %q", name, got, want)
					}
				}
				cookies := got.Cookies()
				if len(cookies) != tt.cookies {
					t.Errorf("got %d cookies, want %d", len(cookies), tt.cookies)
				}
				for _, c := range cookies {
					if secure := scheme == "https"; c.Path != "/" || c.Secure != secure || c.Partitioned != secure || (c.SameSite == http.SameSiteNoneMode) != secure {
						t.Errorf("cookie %v", c)
					}
				}
			})
		}
	}
}

func TestTokenOpensTheAuthorizedHub(t *testing.T) {
	h := start(t)
	for _, path := range []string{"/generateJwtToken", "/generatejwttoken/Some%20One"} {
		token := h.ask(t, "GET", h.http+path).text
		for _, how := range []struct {
			query   string
			headers []string
			status  int
		}{
			{"", []string{"Authorization", "bearer " + token}, 200},
			{"?access_token=" + token, nil, 200},
			{"?access_token=" + token, []string{"Authorization", ""}, 200},
			{"?access_token=" + token, []string{"Authorization", "Bearer x"}, 401},
			{"?access_token=" + token, []string{"Authorization", "Basic eDp5"}, 401},
			{"?access_token=" + token[:len(token)-8], nil, 401},
		} {
			if got := h.ask(t, "POST", h.http+"/authorizedhub/negotiate"+how.query, how.headers...); got.StatusCode != how.status {
				t.Errorf("%s %q: got %d, want %d", how.query, how.headers, got.StatusCode, how.status)
			}
		}
	}
}

func TestTokensAreChecked(t *testing.T) {
	mine, foreign := newTokens(), newTokens()
	request := func(token string) *http.Request {
		r, err := http.NewRequest("GET", "http://x/?ACCESS_TOKEN="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	good, err := mine.issue("alice")
	if err != nil {
		t.Fatal(err)
	}
	if name, err := mine.name(request(good)); name != "alice" || err != nil {
		t.Errorf("got %q, %v, want alice", name, err)
	}
	if _, err := foreign.name(request(good)); err == nil {
		t.Error("a foreign token passes")
	}
	nameless, err := mine.issue("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.name(request(nameless)); !errors.Is(err, errNoName) {
		t.Errorf("a token without a name: got %v, want %v", err, errNoName)
	}
	if _, err := mine.name(request("")); !errors.Is(err, errNoToken) {
		t.Errorf("no token: got %v, want %v", err, errNoToken)
	}
}

func TestWholeCharactersKeepsWhatIsCutOff(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "é": 2, "a\xc3": 1, "\xc3": 0, "€\xe2\x82": 3, "\xf0\x9f\x9a": 0, "🚀": 4, "a🚀\xf0": 5,
		"\x80\x80\x80\x80": 4, "a\xff": 2,
	} {
		if got := wholeCharacters([]byte(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestRunRefusesWrongArguments(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"-nothing"}, exitUsage},
		{[]string{"argument"}, exitUsage},
		{[]string{"-h"}, exitClean},
		{[]string{"-http", "256.0.0.1:0"}, exitFailed},
		{[]string{"-static", filepath.Join(t.TempDir(), "missing")}, exitFailed},
	} {
		if got := run(t.Context(), tt.args, io.Discard, io.Discard); got != tt.code {
			t.Errorf("%q: got %d, want %d", tt.args, got, tt.code)
		}
	}
}
