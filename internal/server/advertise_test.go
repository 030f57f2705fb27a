package server

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestTheAdvertisedAddressIsOneThatCanBeReached(t *testing.T) {
	for _, tt := range []struct{ listen, advertise, want string }{
		{"127.0.0.1:0", "", "127.0.0.1"},
		{"0.0.0.0:0", "", "127.0.0.1"}, // without Redis
		{"[::]:0", "", "127.0.0.1"},
		{"127.0.0.1:0", "https://a.example:8443", "https://a.example:8443"},
	} {
		s, err := New(Config{Listen: tt.listen, Advertise: tt.advertise, Insecure: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen(); err != nil {
			t.Fatal(err)
		}
		got := s.advertised()
		if tt.advertise == "" {
			_, port, _ := net.SplitHostPort(s.Addr())
			tt.want = net.JoinHostPort(tt.want, port)
		}
		if got != tt.want {
			t.Errorf("listening on %s: %q, want %q", tt.listen, got, tt.want)
		}
		s.listener.Close()
	}
	for _, wrong := range []string{"a.example", ":8080", "a.example:", "0.0.0.0:8080", "http://a:1/path", "a b:1"} {
		if _, err := New(Config{Advertise: wrong}); err == nil || !strings.Contains(err.Error(), "advertise") {
			t.Errorf("%q: %v, want an error that names it", wrong, err)
		}
	}
}

// TestReadyMeansThatTokensAreTheFleets: what an instance gives out the moment it
// is ready is good at the others, and theirs at it.
func TestReadyMeansThatTokensAreTheFleets(t *testing.T) {
	rs := redistest.Start(t)
	ask := func(method string, s *Server, query string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+DefaultHubPath+query, nil)
		if err != nil {
			t.Fatal(err)
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
	defer http.DefaultClient.CloseIdleConnections()
	fleet := []*Server{run(t, Config{Redis: rs.URL(), Instance: "first"})}
	<-fleet[0].hubs[0].Ready()
	for range 8 {
		s := run(t, Config{Redis: rs.URL(), Instance: "another"})
		<-s.hubs[0].Ready()
		for _, way := range [][2]*Server{{s, fleet[0]}, {fleet[0], s}} {
			_, answer := ask("POST", way[0], "/negotiate?negotiateVersion=1")
			_, rest, _ := strings.Cut(answer, `"connectionToken":"`)
			token, _, _ := strings.Cut(rest, `"`)
			if status, _ := ask("GET", way[1], "?id="+token); status != http.StatusOK {
				t.Fatalf("a token of %s at %s: %d", way[0].Instance(), way[1].Instance(), status)
			}
			if status, _ := ask("DELETE", way[1], "?id="+token); status != http.StatusAccepted {
				t.Errorf("the end: %d", status)
			}
		}
	}
}
