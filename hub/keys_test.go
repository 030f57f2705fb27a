package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
)

// TestATokenIsGoodForItsOwnHub: hubs of a fleet share a secret, not their keys.
func TestATokenIsGoodForItsOwnHub(t *testing.T) {
	b := memory.New()
	bp := connectMemory(t, b)
	first := httptest.NewServer(start(t, hub.Options{Name: "First", Backplane: bp}))
	defer first.Close()
	second := httptest.NewServer(start(t, hub.Options{Name: "Second", Backplane: bp}))
	defer second.Close()
	sibling := httptest.NewServer(start(t, hub.Options{Name: "First", Backplane: connectMemory(t, b)}))
	defer sibling.Close()
	defer http.DefaultClient.CloseIdleConnections()
	_, answer := request(t, "POST", first.URL+"/negotiate?negotiateVersion=1", "", "")
	_, rest, _ := strings.Cut(answer, `"connectionToken":"`)
	token, _, _ := strings.Cut(rest, `"`)
	if status, _ := request(t, "GET", second.URL+"/?id="+token, "", ""); status != 404 {
		t.Errorf("at another hub: %d, want 404", status)
	}
	// A sibling knows the token; nobody has told it where the owner is.
	if status, text := request(t, "DELETE", sibling.URL+"/?id="+token, "", ""); status != 404 || text == "" {
		t.Errorf("at a sibling: %d %q", status, text)
	}
	if status, _ := request(t, "GET", first.URL+"/?id="+token, "", ""); status != 200 {
		t.Errorf("at its hub: %d, want 200", status)
	}
	if status, _ := request(t, "DELETE", first.URL+"/?id="+token, "", ""); status != 202 {
		t.Errorf("DELETE: %d", status)
	}
}
