package hub_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// lives counts a hub's callbacks.
type lives struct{ connected, disconnected atomic.Int32 }

func (l *lives) watch(h *hub.Hub) {
	h.OnConnected(func(context.Context, *hub.Caller) error { l.connected.Add(1); return nil })
	h.OnDisconnected(func(context.Context, *hub.Caller, error) { l.disconnected.Add(1) })
}

func TestASilentClientIsClosedAtItsTimeout(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l lives
				h := start(t, hub.Options{}, l.watch)
				c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				began := time.Now()
				c.Write(p.AppendPing(nil)) // starts the clock
				m, err := c.Next()
				if err != nil || m.Type != protocol.Close || !m.AllowReconnect || !strings.Contains(string(m.Error), "ClientTimeoutInterval") {
					t.Fatalf("got type %d, error %q, %v; want a Close that names the timeout and allows to reconnect", m.Type, m.Error, err)
				}
				if after := time.Since(began); after < hub.DefaultClientTimeoutInterval || after > hub.DefaultClientTimeoutInterval+time.Second {
					t.Errorf("closed after %v, want the client timeout", after)
				}
				c.HangUp()
				<-c.Over()
				if l.connected.Load() != 1 || l.disconnected.Load() != 1 {
					t.Errorf("callbacks ran %d and %d times, want once each", l.connected.Load(), l.disconnected.Load())
				}
			})
		})
	}
}

func TestListeningIsNotTalking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(protocol.JSON{}.AppendPing(nil))
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					if err := h.Clients().All().Send(context.Background(), "m", 1); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		defer close(stop)
		for {
			m, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == protocol.Close {
				break // what it received did not count as a sign of life
			}
		}
	})
}

func TestAClientWithoutPingsStays(t *testing.T) {
	for name, talk := range map[string]func(*hubtest.Client){
		"when it calls":                  func(c *hubtest.Client) { c.Send("EchoString", "x") },
		"when its socket answers probes": func(*hubtest.Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{})
				c := hubtest.Connect(t, h, hubtest.Options{})
				for range 20 {
					time.Sleep(10 * time.Second)
					talk(c)
				}
				if _, err := c.Invoke("EchoString", []any{"still here"}, nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAPeerThatIsGoneIsNoticedBeforeItsFirstPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		h := start(t, hub.Options{}, l.watch)
		c := hubtest.Connect(t, h, hubtest.Options{Unplugged: true})
		began := time.Now()
		<-c.Over()
		if after := time.Since(began); after > hub.DefaultClientTimeoutInterval+time.Second {
			t.Errorf("noticed after %v", after)
		}
		if l.disconnected.Load() != 1 {
			t.Errorf("OnDisconnected ran %d times, want once", l.disconnected.Load())
		}
	})
}

func TestPingsComeToAClientThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{})
		for want := 1; want <= 4; want++ {
			time.Sleep(hub.DefaultKeepAliveInterval + time.Second)
			if got := c.Pings(); got != want {
				t.Errorf("%d pings after %d intervals", got, want)
			}
		}
	})
}

func TestPingsComeWhateverElseComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{})
		for range 600 { // a minute of calls without ids, which nothing answers
			c.Send("EchoString", "x")
			time.Sleep(100 * time.Millisecond)
		}
		if got := c.Pings(); got < 3 || got > 4 {
			t.Errorf("%d pings in a minute, want one each 15 s", got)
		}
	})
}

func TestALongCallDoesNotTimeItsCallerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{}, func(h *hub.Hub) {
			h.Handle("Sleep", hub.Action1(func(ctx context.Context, _ *hub.Caller, seconds int) error {
				select {
				case <-time.After(time.Duration(seconds) * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}))
		})
		c := hubtest.Connect(t, h, hubtest.Options{})
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(15 * time.Second):
					c.Write(protocol.JSON{}.AppendPing(nil))
				}
			}
		}()
		if _, err := c.Invoke("Sleep", []any{90}, nil); err != nil {
			t.Error(err)
		}
		close(done)
	})
}

func TestACancelledCallEndsAtOnceWithOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{}, func(h *hub.Hub) {
			h.Handle("Wait", hub.Action0(func(ctx context.Context, _ *hub.Caller) error {
				<-ctx.Done()
				return hub.Errorf("cancelled")
			}))
		})
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(protocol.JSON{}.AppendCancelInvocation(nil, "1")) // before its call: nobody to cancel
		id := c.Begin("Wait")
		synctest.Wait()
		c.Write(protocol.JSON{}.AppendCancelInvocation(nil, id))
		c.Write(protocol.JSON{}.AppendCancelInvocation(nil, id))
		m, err := c.Next()
		if err != nil || m.Type != protocol.Completion || string(m.InvocationID) != id {
			t.Fatalf("got type %d for %q, %v; want the completion of %q", m.Type, m.InvocationID, err, id)
		}
		if got, err := c.Invoke("EchoString", []any{"next"}, nil); err != nil || got != "next" {
			t.Errorf("the call after it: %v, %v", got, err)
		}
	})
}

func TestAClientThatSaysNothingIsCutAtTheHandshakeTimeout(t *testing.T) {
	request := `{"protocol":"json","version":1}`
	for name, dribble := range map[string]string{"silent": "", "without its terminator": "", "dribbling spaces": " "} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l lives
				h := start(t, hub.Options{}, l.watch)
				c := hubtest.Connect(t, h, hubtest.Options{NoHandshake: true})
				began := time.Now()
				if name != "silent" {
					c.Write([]byte(request))
				}
				if dribble != "" {
					go func() {
						for {
							select {
							case <-c.Over():
								return
							case <-time.After(time.Second):
								c.Write([]byte(dribble))
							}
						}
					}()
				}
				text, err := c.Handshake()
				if err != nil || text != "Handshake was canceled." {
					t.Errorf("answered %q, %v", text, err)
				}
				<-c.Over()
				if after := time.Since(began); after < hub.DefaultHandshakeTimeout || after > hub.DefaultHandshakeTimeout+time.Second {
					t.Errorf("cut after %v, want the handshake timeout", after)
				}
				if l.connected.Load() != 0 || l.disconnected.Load() != 0 || h.Stats().Connections != 0 {
					t.Error("it counted as a connection")
				}
			})
		})
	}
}

func TestALateTerminatorStillCompletesTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{NoHandshake: true})
		c.Write([]byte(`{"protocol":"json","version":1}`))
		time.Sleep(3 * time.Second)
		c.Write([]byte{0x1e})
		if text, err := c.Handshake(); text != "" || err != nil {
			t.Fatalf("answered %q, %v", text, err)
		}
		if got, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil || got != "x" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestAStuckReaderIsDroppedAndNobodyWaits(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				h := start(t, hub.Options{OutboundMessages: 64}, func(h *hub.Hub) {
					h.OnDisconnected(func(_ context.Context, _ *hub.Caller, why error) { cause = why })
				})
				stuck := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				other := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				began := time.Now()
				for i := range 2000 { // more than its socket and its queue take
					if err := h.Clients().All().Send(context.Background(), "m", i); err != nil {
						t.Fatal(err)
					}
					if got := other.Receive(); got.Args[0] != int64(i) {
						t.Fatalf("received %v, want %d", got.Args, i)
					}
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("the others waited %v", waited)
				}
				<-stuck.Over()
				if waited := time.Since(began); waited > hub.DefaultWriteTimeout {
					t.Errorf("the stuck one was dropped after %v", waited)
				}
				if cause != hub.ErrSlowConsumer {
					t.Errorf("cause %v, want %v", cause, hub.ErrSlowConsumer)
				}
				if got := h.Stats().QueuedBytes; got != 0 {
					t.Errorf("%d bytes still count as queued", got)
				}
			})
		})
	}
}

func TestShutdownTellsClientsToReconnect(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{})
				c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				go func() {
					for {
						m, err := c.Next()
						if err == io.EOF {
							c.HangUp()
							return
						}
						if err != nil || m.Type != protocol.Close || !m.AllowReconnect || m.HasError && len(m.Error) > 0 {
							t.Errorf("got type %d, error %q, reconnect %v, %v", m.Type, m.Error, m.AllowReconnect, err)
							return
						}
					}
				}()
				if err := h.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestACloseThatIsNotAnsweredIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lives
		h := start(t, hub.Options{}, l.watch)
		c := hubtest.Connect(t, h, hubtest.Options{})
		began := time.Now()
		c.Write(protocol.JSON{}.AppendClose(nil, "", false)) // and then the socket stays open
		<-c.Over()
		if after := time.Since(began); after > hub.DefaultCloseTimeout+2*time.Second {
			t.Errorf("released after %v", after)
		}
		if l.disconnected.Load() != 1 {
			t.Errorf("OnDisconnected ran %d times, want once", l.disconnected.Load())
		}
	})
}

func TestShutdownDoesNotWaitForHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		c := hubtest.Connect(t, h, hubtest.Options{NoHandshake: true})
		synctest.Wait()
		began := time.Now()
		if err := h.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-c.Over()
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestASlowListenerThatNeverPingsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{KeepAliveInterval: time.Hour})
		c := hubtest.Connect(t, h, hubtest.Options{})
		const messages = 120 // one read each second: four client timeouts
		for i := range messages {
			if err := h.Clients().All().Send(t.Context(), "m", i); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a write for each, and more than the socket takes
		}
		for i := range messages {
			time.Sleep(time.Second)
			if got := c.Receive(); got.Args[0] != int64(i) {
				t.Fatalf("received %v, want %d", got.Args, i)
			}
		}
	})
}

// TestAFailedConnectWaitsForAnEventStreamsClient: the official client loses a
// Close that comes before its first ping was answered.
func TestAFailedConnectWaitsForAnEventStreamsClient(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind transport.Kind
		ping time.Duration // after the handshake; 0 is never
		want time.Duration
	}{
		{"which pings", transport.ServerSentEvents, time.Second, 1250 * time.Millisecond},
		{"which never pings", transport.ServerSentEvents, 0, 3 * time.Second},
		{"and for nobody else", transport.WebSockets, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{}, func(h *hub.Hub) {
					h.OnConnected(func(context.Context, *hub.Caller) error { return hub.Errorf("no") })
				})
				c := hubtest.Connect(t, h, hubtest.Options{Transport: tt.kind})
				began := time.Now()
				if tt.ping > 0 {
					time.Sleep(tt.ping)
					c.Write(protocol.JSON{}.AppendPing(nil))
				}
				m, err := c.Next()
				if err != nil || m.Type != protocol.Close || m.AllowReconnect {
					t.Fatalf("type %d, %v", m.Type, err)
				}
				if d := time.Since(began); d < tt.want || d > tt.want+20*time.Millisecond {
					t.Errorf("the Close came after %v, want %v", d, tt.want)
				}
			})
		})
	}
}
