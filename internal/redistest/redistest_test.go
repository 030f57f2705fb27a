package redistest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens a client the way a user of the URL would.
func connect(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatalf("ParseURL(%q): %v", s.URL(), err)
	}
	if opt.TLSConfig != nil {
		opt.TLSConfig = s.TLSConfig()
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStart(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redistest.Option
		want string // prefix of the URL
	}{
		{"listens on a Unix socket", nil, "unix:///"},
		{"listens on a loopback port", []redistest.Option{redistest.TCP()}, "redis://127.0.0.1:"},
		{"asks for the password on a Unix socket", []redistest.Option{redistest.Password("p/w:1")}, "unix://"},
		{"asks for the password on a port", []redistest.Option{redistest.TCP(), redistest.Password("p/w:1")}, "redis://"},
		{"speaks TLS", []redistest.Option{redistest.TLS(), redistest.Password("pw")}, "rediss://"},
		{"takes arguments", []redistest.Option{redistest.Args("--maxclients", "50")}, "unix://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := redistest.Start(t, test.opts...)
			if !strings.HasPrefix(s.URL(), test.want) {
				t.Errorf("URL %q, want prefix %q", s.URL(), test.want)
			}
			if got := s.Do("SET", "k", "v"); got != "OK" {
				t.Errorf("SET answered %v, want OK", got)
			}
			if got, err := connect(t, s).Get(t.Context(), "k").Result(); err != nil || got != "v" {
				t.Errorf("GET through the URL: %q, %v, want v", got, err)
			}
			if got, want := s.Keys(), []string{"k"}; !slices.Equal(got, want) {
				t.Errorf("keys %q, want %q", got, want)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []redistest.Option
	}{
		{"keeps the socket and forgets the data", nil},
		{"keeps the port and forgets the data", []redistest.Option{redistest.TCP()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := redistest.Start(t, test.opts...)
			s.Do("SET", "k", "v")
			addr, pid := s.Addr(), s.PID()
			s.Stop()
			if _, err := s.TryDo("PING"); err == nil {
				t.Error("a stopped server answers")
			}
			s.Restart()
			if s.Addr() != addr {
				t.Errorf("address %q after the restart, want %q", s.Addr(), addr)
			}
			if s.PID() == pid {
				t.Error("the process is the same after the restart")
			}
			if got := s.Keys(); len(got) != 0 {
				t.Errorf("keys %q after the restart, want none", got)
			}
		})
	}
}

func TestChannels(t *testing.T) {
	s := redistest.Start(t)
	ps := connect(t, s).Subscribe(t.Context(), "b", "a")
	t.Cleanup(func() { ps.Close() })
	for range 2 {
		if _, err := ps.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Channels(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("channels %q, want %q", got, want)
	}
	if got := s.NumSub("a"); got != 1 {
		t.Errorf("%d subscribers, want 1", got)
	}
	if got := s.NumSub("none"); got != 0 {
		t.Errorf("%d subscribers of an unknown channel, want 0", got)
	}
}

func TestPause(t *testing.T) {
	s := redistest.Start(t)
	answered := make(chan error, 1)
	s.Pause()
	go func() {
		_, err := s.TryDo("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a frozen server answered: %v", err)
	default:
	}
	s.Resume()
	if err := <-answered; err != nil {
		t.Errorf("PING after Resume: %v", err)
	}
	s.Pause() // the clean-up ends a frozen server too
}

func TestCleanup(t *testing.T) {
	var addr string
	t.Run("one server", func(t *testing.T) { addr = redistest.Start(t).Addr() })
	if _, err := os.Stat(addr); !os.IsNotExist(err) {
		t.Errorf("socket after the test: %v, want it gone", err)
	}
}

func ExampleStart() {
	_ = func(t *testing.T) {
		server := redistest.Start(t)
		server.Do("PUBLISH", "news", "hello")
	}
	// Output:
}
