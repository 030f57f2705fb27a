package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a request to the handler of an instance.
func ask(s *Server, path, host string) (int, status) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var st status
	if w.Header().Get("Content-Type") == "application/json" {
		json.Unmarshal(w.Body.Bytes(), &st)
	}
	return w.Code, st
}

// run runs an instance until the test ends.
func run(t *testing.T, cfg Config) *Server {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// eventually waits until the readiness answer is as wanted.
func eventually(t *testing.T, s *Server, code int, want status) {
	t.Helper()
	want.Instance = s.Instance()
	deadline := time.Now().Add(10 * time.Second)
	for {
		gotCode, got := ask(s, "/readyz", "localhost")
		if gotCode == code && got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz is %d %+v, want %d %+v", gotCode, got, code, want)
		}
		time.Sleep(10 * time.Millisecond) // a real Redis comes and goes in real time
	}
}

func TestReadinessFollowsRedisAndTheDrain(t *testing.T) {
	rs := redistest.Start(t)
	rs.Stop()
	s := run(t, Config{Redis: rs.URL(), Instance: "a"})
	eventually(t, s, http.StatusServiceUnavailable, status{Status: "starting", Degraded: true})
	rs.Restart()
	eventually(t, s, http.StatusOK, status{Status: "ready"})
	rs.Stop()
	eventually(t, s, http.StatusOK, status{Status: "ready", Degraded: true})
	rs.Restart()
	eventually(t, s, http.StatusOK, status{Status: "ready"})
	if code, st := ask(s, "/healthz", "localhost"); code != http.StatusOK || st.Status != "alive" {
		t.Errorf("/healthz is %d %+v", code, st)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, s, http.StatusServiceUnavailable, status{Status: "draining"})
}

func TestOnlyLoopbackHostsAreAnswered(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "localhost.:80": 200, "a.localhost": 200, "127.0.0.1": 200, "127.3.2.1:9": 200, "[::1]:8080": 200, "[::ffff:127.0.0.1]:1": 200,
		"example.com": 403, "localhost.example.com": 403, "127.0.0.1.example.com": 403, "10.0.0.1:8080": 403, "[::]": 403, "0.0.0.0": 403, "": 403, "localhost@example.com": 403,
	} {
		if code, _ := ask(s, "/healthz", host); code != want {
			t.Errorf("Host %q: %d, want %d", host, code, want)
		}
	}
}

func TestMistakesInTheConfigurationAreNamed(t *testing.T) {
	for name, cfg := range map[string]Config{
		"an address off loopback": {Listen: "0.0.0.0:1"},
		"all addresses":           {Listen: ":1"},
		"no address":              {Listen: "x"},
		"an unknown policy":       {OnRedisMissing: "hope"},
		"a negative timeout":      {DrainTimeout: -1},
		"a path twice":            {Hubs: []HubPath{{"/a", "A"}, {"/a", "B"}}},
		"a Redis URL":             {Redis: "ftp://x"},
		"an origin":               {AllowedOrigins: []string{"not an origin"}},
		"a hub key":               {Hubs: []HubPath{{"/a", "A\x00"}}},
	} {
		var mistake *ConfigError
		if _, err := New(cfg); !errors.As(err, &mistake) {
			t.Errorf("%s: %v, want a ConfigError", name, err)
		}
	}
	for _, s := range []string{"", "x", "/=K", "/a=", "a=K", "/a/=K", "/a b=K", "/{a}=K", "/a/negotiate=K", "/api/x=K", "/healthz=K", "/a?b=K"} {
		if h, err := ParseHubPath(s); err == nil {
			t.Errorf("ParseHubPath(%q) = %+v, want an error", s, h)
		}
	}
	if h, err := ParseHubPath("/chat/room=Contoso.Chat+Room"); err != nil || h != (HubPath{"/chat/room", "Contoso.Chat+Room"}) {
		t.Errorf("got %+v, %v", h, err)
	}
	if _, err := New(Config{Listen: "0.0.0.0:1", Insecure: true}); err != nil {
		t.Errorf("insecure off loopback: %v", err)
	}
}

func TestRedisThatIsMissingIsAPolicy(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Redis: "redis://127.0.0.1:1", OnRedisMissing: Fail})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, errMissing) {
		t.Errorf("Run: %v, want %v", err, errMissing)
	}
}

// A Redis that comes late and then refuses the password ends the instance.
func TestAWrongPasswordIsFoundOutLate(t *testing.T) {
	rs := redistest.Start(t, redistest.TCP(), redistest.Password("right"))
	rs.Stop()
	s, err := New(Config{Listen: "127.0.0.1:0", Redis: "redis://:wrong@" + rs.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	eventually(t, s, http.StatusServiceUnavailable, status{Status: "starting", Degraded: true})
	rs.Restart()
	if err := <-done; err == nil || !hopeless(err) {
		t.Errorf("Run: %v, want a refusal", err)
	}
}
