package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/internal/redistest"
	"github.com/switchboard-hub/switchboard/internal/server"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(hostEnv); url != "" {
		if err := hostMain(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	backplane.RouteLogs(nil) // Redis comes and goes in these tests
	goleak.VerifyTestMain(m)
}

// protocols are the hub protocols every test of behaviour runs over.
func protocols() []protocol.Protocol {
	return []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}}
}

// An instance is one server of a fleet.
type instance struct {
	*server.Server
	stop func() // ends it at once and waits
}

// URL is the address of its hub.
func (i instance) URL() string { return "http://" + i.Addr() + server.DefaultHubPath }

// startInstance runs an instance until the test ends or stop is called, and
// waits until it is ready.
func startInstance(t testing.TB, cfg server.Config) instance {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("instance %s: %v", s.Instance(), err)
		}
	})
	i := instance{Server: s, stop: sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})}
	t.Cleanup(i.stop)
	if len(cfg.Hubs) == 0 {
		cfg.Hubs = []server.HubPath{{Path: server.DefaultHubPath, Key: server.DefaultHubKey}}
	}
	late := time.After(10 * time.Second)
	for _, h := range cfg.Hubs {
		select {
		case <-s.Hub(h.Key).Ready():
		case <-late:
			t.Fatal("instance is not ready")
		}
	}
	return i
}

// startFleet runs n instances on one Redis of their own.
func startFleet(t testing.TB, n int, tune func(*hub.Options)) (*redistest.Server, []instance) {
	t.Helper()
	rs := redistest.Start(t)
	fleet := make([]instance, n)
	for i := range fleet {
		fleet[i] = startInstance(t, server.Config{Redis: rs.URL(), Instance: fmt.Sprintf("i%d", i), Tune: tune})
	}
	return rs, fleet
}

// connect opens a client that ends with the test.
func connect(t testing.TB, o client.Options) *client.Client {
	t.Helper()
	return connectWith(t, o, func(*client.Client) {})
}

// connectWith prepares the client before it connects.
func connectWith(t testing.TB, o client.Options, prepare func(*client.Client)) *client.Client {
	t.Helper()
	o.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	prepare(c)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Logf("stop: %v", err)
		}
	})
	return c
}

func TestEveryBuiltInMethodWorksAcrossInstances(t *testing.T) {
	_, fleet := startFleet(t, 2, nil)
	for _, p := range protocols() {
		for _, q := range protocols() {
			t.Run(p.Name()+" to "+q.Name(), func(t *testing.T) {
				got := make(chan string, 10)
				receiver := connect(t, client.Options{URL: fleet[0].URL() + "?user_id=u1", Protocol: q})
				receiver.On("Message", func(args client.Args) {
					s, err := client.Arg[string](args, 0)
					if err != nil {
						t.Error(err)
					}
					got <- s
				})
				sender := connect(t, client.Options{URL: fleet[1].URL(), Protocol: p, SkipNegotiation: true})
				if err := receiver.Call(t.Context(), "JoinGroup", "g"); err != nil {
					t.Fatal(err)
				}
				for _, call := range []struct {
					method string
					args   []any
				}{
					{"SendToGroup", []any{"g", "Message", []any{"SendToGroup"}}},
					{"SendToUser", []any{"u1", "Message", []any{"SendToUser"}}},
					{"SendToAll", []any{"Message", []any{"SendToAll"}}},
				} {
					if err := sender.Call(t.Context(), call.method, call.args...); err != nil {
						t.Fatal(err)
					}
					if s := <-got; s != call.method {
						t.Errorf("got %q, want %q", s, call.method)
					}
				}
			})
		}
	}
}
