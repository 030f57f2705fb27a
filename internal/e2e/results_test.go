package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestAClientOfAnotherProcessAnswers(t *testing.T) {
	rs := redistest.Start(t)
	asking := startNode(t, nodeConfig{redis: rs.URL()})
	host := startHost(t, rs)
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			c := connectWith(t, client.Options{URL: host, Protocol: p}, func(c *client.Client) {
				client.OnResult(c, "Double", func(args client.Args) (any, error) {
					n, err := client.Arg[int](args, 0)
					return 2 * n, err
				})
				client.OnResult(c, "Refuse", func(client.Args) (any, error) { return nil, errors.New("no") })
			})
			to := asking.Clients().Client(idOf(t, c))
			if v, err := hub.Invoke[int](t.Context(), to, "Double", 21); v != 42 || err != nil {
				t.Errorf("got %v, %v, want 42", v, err)
			}
			var forClient *hub.Error
			if _, err := hub.Invoke[int](t.Context(), to, "Refuse"); !errors.As(err, &forClient) || err.Error() != "no" {
				t.Errorf("got %v, want the client's error", err)
			}
		})
	}
	began := time.Now()
	if _, err := hub.Invoke[int](t.Context(), asking.Clients().Client("nobody"), "Double", 1); !errors.Is(err, hub.ErrConnectionNotFound) {
		t.Errorf("nobody: %v, want ErrConnectionNotFound", err)
	}
	t.Logf("nobody was there after %v", time.Since(began))
}

// idOf is the id of a connection that other instances can reach: its channels
// are live once its calls run.
func idOf(t testing.TB, c *client.Client) string {
	t.Helper()
	id, err := client.Invoke[string](t.Context(), c, "ID")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestAQuestionToAKilledInstanceFailsFast: the process whose client is asked
// dies without a word.
func TestAQuestionToAKilledInstanceFailsFast(t *testing.T) {
	kills := size(12, 100)
	const tooLong = 3 * time.Second
	rs := redistest.Start(t)
	asking := startNode(t, nodeConfig{redis: rs.URL()})
	slots := make(chan struct{}, 4)
	var killing sync.WaitGroup
	for range kills {
		slots <- struct{}{}
		killing.Go(func() {
			defer func() { <-slots }()
			url, kill := startMortalHost(t, rs)
			asked := make(chan struct{})
			c := connectWith(t, client.Options{URL: url}, func(c *client.Client) {
				client.OnResult(c, "Never", func(client.Args) (any, error) {
					close(asked)
					<-t.Context().Done()
					return nil, nil
				})
			})
			id := idOf(t, c)
			failed := make(chan error, 1)
			go func() {
				_, err := hub.Invoke[int](context.Background(), asking.Clients().Client(id), "Never")
				failed <- err
			}()
			<-asked
			began := time.Now()
			kill()
			select {
			case err := <-failed:
				if !errors.Is(err, hub.ErrConnectionNotFound) {
					t.Errorf("got %v, want ErrConnectionNotFound", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the question hangs")
			}
			if d := time.Since(began); d > tooLong {
				t.Errorf("the error came after %v, want within %v", d, tooLong)
			}
		})
	}
	killing.Wait()
	if n := asking.Stats().PendingResults; n != 0 {
		t.Errorf("%d results are still waited for", n)
	}
}
