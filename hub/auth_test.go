package hub_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func TestAConnectionEndsWithItsAuthentication(t *testing.T) {
	const life = 10 * time.Second
	for _, tt := range []struct {
		name string
		opts hub.Options
		life time.Duration
		ends bool
	}{
		{"and the option", hub.Options{CloseOnAuthenticationExpiration: true}, life, true},
		{"but not without the option", hub.Options{}, life, false},
		{"but not without an end", hub.Options{CloseOnAuthenticationExpiration: true}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, tt.opts)
				id := &hub.Identity{UserID: "u"}
				if tt.life > 0 {
					id.Expires = time.Now().Add(tt.life)
				}
				began := time.Now()
				c := hubtest.Connect(t, h, hubtest.Options{Identity: id})
				for time.Since(began) < life-time.Second { // busy
					if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				time.Sleep(3 * time.Second)
				_, err := c.Invoke("EchoString", []any{"x"}, nil)
				if !tt.ends {
					if err != nil {
						t.Errorf("ended: %v", err)
					}
					return
				}
				if err == nil {
					t.Fatal("the connection goes on after its authentication")
				}
				if n := h.Stats().Disconnects["authentication_expired"]; n != 1 {
					t.Errorf("counted %d times, want once", n)
				}
			})
		})
	}
}

func TestTheFarewellOfAnExpiredAuthenticationHasNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{CloseOnAuthenticationExpiration: true})
		c := hubtest.Connect(t, h, hubtest.Options{Identity: &hub.Identity{Expires: time.Now().Add(time.Second)}})
		m, err := c.Next()
		if err != nil || m.Type != protocol.Close || m.HasError || !m.AllowReconnect {
			t.Errorf("got type %d, error %q, allowReconnect %v, %v", m.Type, m.Error, m.AllowReconnect, err)
		}
	})
}

// users names the user of a request by a header.
func users(r *http.Request) (*hub.Identity, error) {
	if name := r.Header.Get("User"); name != "" {
		return &hub.Identity{UserID: name}, nil
	}
	return nil, nil
}

func request(t *testing.T, method, url, user, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.Header.Set("User", user)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestAHubDecidesWhoMayUseIt(t *testing.T) {
	h := start(t, hub.Options{Authenticate: users, Authorize: func(id *hub.Identity, r *http.Request) error {
		if id == nil || id.UserID != "ann" {
			return errors.New("ann only")
		}
		return nil
	}})
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for user, want := range map[string]int{"": 403, "bob": 403, "ann": 200} {
		if status, body := request(t, "POST", srv.URL+"/negotiate?negotiateVersion=1", user, ""); status != want || want == 403 && body != "" {
			t.Errorf("user %q: %d %q, want %d", user, status, body, want)
		}
	}
}

// TestAConnectionIsItsOwnUsers: with the token of another's connection one can
// neither listen nor speak for it.
func TestAConnectionIsItsOwnUsers(t *testing.T) {
	h := start(t, hub.Options{Authenticate: users})
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()
	_, answer := request(t, "POST", srv.URL+"/negotiate?negotiateVersion=1", "ann", "")
	_, rest, _ := strings.Cut(answer, `"connectionToken":"`)
	token, _, _ := strings.Cut(rest, `"`)
	url := srv.URL + "/?id=" + token
	if status, _ := request(t, "GET", url, "ann", ""); status != 200 {
		t.Fatalf("first poll: %d", status)
	}
	steal := func(when string, statuses map[string]int) {
		t.Helper()
		for method, want := range statuses {
			for _, user := range []string{"", "bob"} {
				if status, _ := request(t, method, url, user, "{\"type\":7}\x1e"); status != want {
					t.Errorf("%s: %s by %q: %d, want %d", when, method, user, status, want)
				}
			}
		}
	}
	forbidden := map[string]int{"GET": 403, "POST": 403, "DELETE": 403}
	steal("before the handshake", forbidden)
	handshake := string(protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: "json", Version: 1}))
	if status, _ := request(t, "POST", url, "ann", handshake); status != 200 {
		t.Fatalf("handshake: %d", status)
	}
	if status, body := request(t, "GET", url, "ann", ""); status != 200 || body != "{}\x1e" {
		t.Fatalf("answer: %d %q", status, body)
	}
	steal("while it is open", forbidden)
	if status, _ := request(t, "DELETE", url, "ann", ""); status != 202 {
		t.Errorf("DELETE by its user: %d", status)
	}
	if status, _ := request(t, "GET", url, "bob", ""); status != 403 && status != 404 {
		t.Errorf("its end was told to bob: %d", status)
	}

	// What was sent before anything was attached, by somebody else.
	_, answer = request(t, "POST", srv.URL+"/negotiate?negotiateVersion=1", "ann", "")
	_, rest, _ = strings.Cut(answer, `"connectionToken":"`)
	token, _, _ = strings.Cut(rest, `"`)
	url = srv.URL + "/?id=" + token
	if status, _ := request(t, "POST", url, "", handshake); status != 200 {
		t.Fatalf("an early POST: %d", status)
	}
	if status, _ := request(t, "GET", url, "ann", ""); status != 403 {
		t.Errorf("ann got a connection in which a stranger has spoken first: %d", status)
	}
}
