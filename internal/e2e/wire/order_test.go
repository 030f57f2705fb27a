package wire

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// withTell registers a method that sends to its caller in every way.
func withTell(h *hub.Hub) {
	h.Handle("Tell", hub.Action1(func(ctx context.Context, from *hub.Caller, n int) error {
		to := from.Clients()
		if err := to.Caller().Send(ctx, "direct", n); err != nil {
			return err
		}
		if err := to.Group("g").Send(ctx, "group", n); err != nil {
			return err
		}
		return to.User(from.UserID()).Send(ctx, "user", n)
	}))
}

// TestCompletionAfterTheMessagesOfItsCall: what a method sends to the calling
// connection itself is on the wire before the completion, always. What it sends
// to a group or a user travels through the backplane: complete and in order,
// and perhaps after the completion; on an instance that is alone before it.
func TestCompletionAfterTheMessagesOfItsCall(t *testing.T) {
	t.Parallel()
	alone := start(t, server.Config{}, withTell)
	_, fleet := startFleet(t, nil, withTell)
	for name, i := range map[string]*instance{"alone": alone, "in a fleet": fleet[1]} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, d dialect) {
				stop := make(chan struct{})
				quiet := make(chan struct{})
				go func() { // a busy background
					defer close(quiet)
					beat := time.NewTicker(time.Millisecond)
					defer beat.Stop()
					for {
						select {
						case <-stop:
							return
						case <-beat.C:
							i.hub().Clients().All().Send(context.Background(), "noise", 1)
						}
					}
				}()
				defer func() {
					close(stop)
					<-quiet
				}()
				p := join(t, i, d, hubPath+"?user_id=u-"+d.name())
				p.skip(result(p.ask("JoinGroup", `["g"]`), "null"))
				calls := full(1000, 20_000)
				last := map[string]int{}
				read := func() string {
					for {
						r, err := p.record(time.Now().Add(patience))
						if err != nil {
							t.Fatal(err)
						}
						if r == ping || strings.Contains(r, `"noise"`) {
							continue
						}
						for _, target := range []string{"direct", "group", "user"} {
							if !strings.Contains(r, `"target":"`+target+`"`) {
								continue
							}
							if want := invocation(target, "["+strconv.Itoa(last[target]+1)+"]"); r != want {
								t.Fatalf("got %s, want %s", r, want)
							}
							last[target]++
						}
						return r
					}
				}
				for n := 1; n <= calls; n++ {
					done := result(p.ask("Tell", "["+strconv.Itoa(n)+"]"), "null")
					for read() != done {
					}
					if last["direct"] != n {
						t.Fatalf("call %d is complete, and %d of its messages to the caller have come", n, last["direct"])
					}
					if i == alone && (last["group"] != n || last["user"] != n) {
						t.Fatalf("call %d is complete, and only messages %v have come", n, last)
					}
				}
				for last["group"] < calls || last["user"] < calls {
					read()
				}
			})
		})
	}
}

// skip reads records until this one.
func (p *peer) skip(want string) {
	p.t.Helper()
	for {
		got, err := p.record(time.Now().Add(patience))
		if err != nil {
			p.t.Fatalf("nothing came: %v, want %s", err, brief(want))
		}
		if got == want {
			return
		}
	}
}
