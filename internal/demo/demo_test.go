package demo

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBothInstancesAreSeenThroughTheBalancer(t *testing.T) {
	for name, redis := range map[string]string{"in memory": "", "on Redis": redistest.Start(t).URL()} {
		t.Run(name, func(t *testing.T) {
			d, err := New(Options{Listen: "127.0.0.1:0", Redis: redis, Every: 20 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() {
				if err := d.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			defer running.Wait()
			defer cancel()

			served := map[string]bool{}
			for range 2 {
				c, err := client.New(client.Options{URL: "http://" + d.Addr() + "/hub", Reconnect: client.RetryForever(time.Millisecond, time.Millisecond)})
				if err != nil {
					t.Fatal(err)
				}
				ticks := make(chan string, 100)
				c.On(TickTarget, func(args client.Args) {
					tick, err := client.Arg[Tick](args, 0)
					if err != nil {
						t.Error(err)
					}
					select {
					case ticks <- tick.Instance:
					default:
					}
				})
				for c.Start(t.Context()) != nil && t.Context().Err() == nil { // not up yet
				}
				defer c.Stop(context.Background())
				me, err := client.Invoke[map[string]string](t.Context(), c, "WhoAmI")
				if err != nil {
					t.Fatal(err)
				}
				served[me["instance"]] = true
				if err := c.Call(t.Context(), "JoinGroup", TickGroup); err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for len(seen) < 2 {
					seen[<-ticks] = true
				}
			}
			if len(served) != 2 {
				t.Errorf("two connections were served by %v, want both instances", served)
			}
		})
	}
}
