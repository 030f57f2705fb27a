package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A site is one instance with a listener, which the others know of.
type site struct {
	*hub.Hub
	url  string
	link *memory.Backplane
}

func startSite(t *testing.T, b *memory.Broker, opts hub.Options, set ...func(*hub.Hub)) site {
	t.Helper()
	bp := connectMemory(t, b)
	opts.Backplane = bp
	h := start(t, opts, set...)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	if err := h.Advertise(srv.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return site{h, srv.URL, bp}
}

// token negotiates.
func (s site) token(t *testing.T) string {
	t.Helper()
	_, answer := request(t, "POST", s.url+"/negotiate?negotiateVersion=1", "", "")
	_, rest, _ := strings.Cut(answer, `"connectionToken":"`)
	token, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("negotiate: %q", answer)
	}
	return token
}

// open opens a WebSocket with a token and returns the answer's status.
func (s site) open(t *testing.T, token string) (*websocket.Conn, int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ws, resp, err := websocket.Dial(t.Context(), s.url+"/?id="+token, &websocket.DialOptions{HTTPClient: client})
	if err == nil {
		t.Cleanup(func() { ws.CloseNow() })
	}
	if resp == nil {
		t.Fatal(err)
	}
	return ws, resp.StatusCode
}

// TestOneTokenOpensOneConnectionInTheFleet: from the moment that one instance
// has taken it, and not again when the connection is over.
func TestOneTokenOpensOneConnectionInTheFleet(t *testing.T) {
	b := memory.New()
	one, two := startSite(t, b, hub.Options{}), startSite(t, b, hub.Options{})
	token := one.token(t)
	ws, status := two.open(t, token) // not even its handshake follows
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the first socket: %d", status)
	}
	for name, s := range map[string]site{"the same instance": two, "the other one": one} {
		if _, status := s.open(t, token); status != http.StatusConflict {
			t.Errorf("a second socket at %s: %d, want 409", name, status)
		}
	}
	if status, _ := request(t, "POST", one.url+"/?id="+token, "", "x"); status != http.StatusMethodNotAllowed {
		t.Errorf("a POST at the other instance: %d, want 405", status)
	}
	ws.CloseNow()
	deadline := time.Now().Add(10 * time.Second)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		_, status := one.open(t, token)
		if status == http.StatusNotFound {
			break
		}
		if status != http.StatusConflict || time.Now().After(deadline) {
			t.Fatalf("a socket after the end: %d, want 404", status)
		}
		<-look.C
	}
}

// TestTokensOpenWhileTheFleetIsAway: each instance decides for itself, and says
// how often it did.
func TestTokensOpenWhileTheFleetIsAway(t *testing.T) {
	b := memory.New()
	one, two := startSite(t, b, hub.Options{}), startSite(t, b, hub.Options{})
	token := one.token(t)
	for _, s := range []site{one, two} {
		s.link.SetLinked(false)
		if _, status := s.open(t, token); status != http.StatusSwitchingProtocols {
			t.Errorf("got %d, want 101", status)
		}
		if _, status := s.open(t, token); status != http.StatusConflict {
			t.Errorf("a second one on the same instance: %d, want 409", status)
		}
		if n := s.Stats().ClaimsAlone; n != 1 {
			t.Errorf("%d claims alone are counted, want 1", n)
		}
	}
}

// TestShutdownFinishesWhatPasses: a POST on its way to another instance, which
// takes its time.
func TestShutdownFinishesWhatPasses(t *testing.T) {
	b := memory.New()
	block := make(chan struct{})
	owner := startSite(t, b, hub.Options{InvocationQueue: 1}, func(h *hub.Hub) {
		h.Handle("Block", hub.Action0(func(context.Context, *hub.Caller) error { <-block; return nil }))
	})
	passing := startSite(t, b, hub.Options{})
	free := sync.OnceFunc(func() { close(block) })
	t.Cleanup(free)
	token := owner.token(t)
	if status, _ := request(t, "GET", owner.url+"/?id="+token, "", ""); status != http.StatusOK {
		t.Fatalf("first poll: %d", status)
	}
	p := protocol.JSON{}
	records := protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: "json", Version: 1})
	for range 3 { // one runs, one waits, and the reader waits with the third
		records, _ = p.AppendInvocation(records, "", "Block", nil)
	}
	for len(records) < 3<<16 { // more than waits for the reader
		records = p.AppendPing(records)
	}
	taken := make(chan int, 1)
	go func() {
		status, _ := request(t, "POST", passing.url+"/?id="+token, "", string(records))
		taken <- status
	}()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for owner.Stats().Invocations == 0 {
		<-look.C
	}
	down := make(chan error, 1)
	go func() { down <- passing.Shutdown(context.Background()) }()
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned (%v) while a POST passed", err)
	case status := <-taken:
		t.Fatalf("the POST was answered with %d before there was room", status)
	case <-time.After(100 * time.Millisecond):
	}
	free()
	if status := <-taken; status != http.StatusOK {
		t.Errorf("the POST: %d, want 200", status)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if status, _ := request(t, "DELETE", owner.url+"/?id="+token, "", ""); status != http.StatusAccepted {
		t.Errorf("the end: %d", status)
	}
}
