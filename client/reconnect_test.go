package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// drop is a script that breaks the connection at once.
func drop(p *peer) { p.ws.CloseNow() }

func TestReconnectSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, drop)
		var attempts []time.Duration
		lost := time.Now() // nothing takes time in here but the delays
		first := true
		s.negotiate = func(w http.ResponseWriter, _ *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if first {
				first = false
				answerNegotiate(w, `"negotiateVersion":1,"connectionId":"c","connectionToken":"t"`)
				return
			}
			attempts = append(attempts, time.Since(lost))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		var asked []Retry
		delays := DefaultRetryDelays()
		c := s.client(Options{Reconnect: func(r Retry) (time.Duration, bool) { asked = append(asked, r); return delays(r) }})
		closed := make(chan error, 1)
		c.OnReconnecting(func(error) {
			if got := c.State(); got != Reconnecting {
				t.Errorf("state %v", got)
			}
			if err := c.Send(t.Context(), "X"); !errors.Is(err, ErrNotConnected) {
				t.Errorf("Send while reconnecting: %v", err)
			}
		})
		c.OnReconnected(func(string) { t.Error("OnReconnected ran") })
		c.OnClosed(func(err error) { closed <- err })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := <-closed
		s.mu.Lock()
		defer s.mu.Unlock()
		status, ok := errors.AsType[*StatusError](err)
		if !errors.Is(err, ErrReconnectFailed) || !ok || status.Status != http.StatusServiceUnavailable {
			t.Errorf("closed with %v", err)
		}
		want := []time.Duration{0, 2 * time.Second, 12 * time.Second, 42 * time.Second}
		if !slices.Equal(attempts, want) {
			t.Errorf("attempts after %v want %v", attempts, want)
		}
		for i, r := range asked {
			if r.Attempt != i || i > 0 && r.Elapsed != want[i-1] || r.Err == nil {
				t.Errorf("asked %d: %+v", i, r)
			}
		}
		if len(asked) != 5 {
			t.Errorf("asked %d times want 5", len(asked))
		}
	})
}

func TestPolicyRefusesAtOnce(t *testing.T) {
	c := newServer(t, drop).client(Options{Reconnect: RetryDelays()})
	closed := make(chan error, 1)
	c.OnReconnecting(func(error) { t.Error("OnReconnecting ran") })
	c.OnClosed(func(err error) { closed <- err })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err == nil || errors.Is(err, ErrReconnectFailed) {
		t.Errorf("got %v want the loss itself", err)
	}
}

// TestReconnectOrder has messages on both connections and a slow handler: user
// code runs in the order of what happened.
func TestReconnectOrder(t *testing.T) {
	first := func(p *peer) {
		p.send(`{"type":1,"target":"m","arguments":[1]}`, `{"type":1,"target":"m","arguments":[2]}`)
		p.send(`{"type":7,"allowReconnect":true}`)
		p.drain()
	}
	second := func(p *peer) {
		p.send(`{"type":1,"target":"m","arguments":[3]}`)
		p.send(`{"type":3,"invocationId":"` + string(p.expect(protocol.Invocation).InvocationID) + `","result":null}`)
		p.send(`{"type":1,"target":"m","arguments":[4]}`)
		p.drain()
	}
	c := newServer(t, first, second).client(Options{Reconnect: RetryDelays(0)})
	var got []string
	done := make(chan struct{})
	c.On("m", func(a Args) {
		got = append(got, string(a.Raw(0)))
		if string(a.Raw(0)) == "4" {
			close(done)
		}
	})
	c.OnReconnecting(func(error) { got = append(got, "reconnecting") })
	c.OnReconnected(func(string) {
		got = append(got, "reconnected")
		if err := c.Call(t.Context(), "Join"); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	if want := []string{"1", "2", "reconnecting", "reconnected", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %v want %v", got, want)
	}
}

func TestStopWhileReconnecting(t *testing.T) {
	t.Run("it stops in a delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newServer(t, drop).client(Options{Reconnect: RetryDelays(time.Hour)})
			closed := make(chan error, 1)
			c.OnClosed(func(err error) { closed <- err })
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			begin := time.Now()
			if err := c.Stop(t.Context()); err != nil || time.Since(begin) != 0 {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
			if err := <-closed; err != nil {
				t.Errorf("closed with %v", err)
			}
		})
	})
	t.Run("it stops in an attempt", func(t *testing.T) {
		s := newServer(t, drop)
		attempt := make(chan struct{})
		c := s.client(Options{Reconnect: RetryForever(time.Millisecond, time.Millisecond)})
		c.OnReconnecting(func(error) {})
		first := true
		s.negotiate = func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			ok := first
			first = false
			s.mu.Unlock()
			if ok {
				answerNegotiate(w, `"negotiateVersion":1,"connectionId":"c","connectionToken":"t"`)
				return
			}
			close(attempt)
			<-r.Context().Done()
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-attempt
		if err := c.Stop(t.Context()); err != nil || c.State() != Disconnected {
			t.Errorf("got %v, state %v", err, c.State())
		}
	})
}

func TestPolicies(t *testing.T) {
	forever := RetryForever(100*time.Millisecond, 3*time.Second)
	for attempt := range 100 {
		bound := min(100*time.Millisecond<<min(attempt, 10), 3*time.Second)
		for range 20 {
			if d, ok := forever(Retry{Attempt: attempt}); !ok || d < 0 || d > bound {
				t.Errorf("attempt %d: got %v, %v, want at most %v", attempt, d, ok, bound)
			}
		}
	}
	if d, ok := RetryForever(0, 0)(Retry{Attempt: 1 << 30}); !ok || d > 30*time.Second {
		t.Errorf("got %v, %v", d, ok)
	}
	if d, ok := RetryForever(time.Hour, time.Second)(Retry{}); !ok || d > time.Second {
		t.Errorf("got %v, %v", d, ok)
	}
	delays := []time.Duration{1, 2}
	policy := RetryDelays(delays...)
	delays[0] = 9
	if d, ok := policy(Retry{}); d != 1 || !ok {
		t.Errorf("got %v, %v: the delays were not copied", d, ok)
	}
	if _, ok := policy(Retry{Attempt: 2}); ok {
		t.Error("got a third attempt")
	}
}

// TestKeepAlive records when the client sends what.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type sent struct {
			at  time.Duration
			typ protocol.Type
		}
		var got []sent
		begin := time.Now()
		s := newServer(t, func(p *peer) {
			for {
				m, ok := p.read()
				if !ok {
					return
				}
				got = append(got, sent{time.Since(begin), m.Type})
			}
		})
		c := s.started(Options{ServerTimeout: time.Hour})
		time.Sleep(20 * time.Second)
		if err := c.Send(t.Context(), "X"); err != nil {
			t.Error(err)
		}
		time.Sleep(40 * time.Second)
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		want := []sent{
			{0, protocol.Ping}, {15 * time.Second, protocol.Ping}, {20 * time.Second, protocol.Invocation},
			{35 * time.Second, protocol.Ping}, {50 * time.Second, protocol.Ping}, {60 * time.Second, protocol.Close},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v want %v", got, want)
		}
	})
}

func TestServerTimeout(t *testing.T) {
	t.Run("it is lost when the server is silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, func(p *peer) { p.sendAfter(20*time.Second, `{"type":6}`) }, echo)
			c := s.client(Options{Reconnect: RetryDelays(0)})
			lost, back := make(chan error, 1), make(chan struct{})
			c.OnReconnecting(func(err error) { lost <- err })
			c.OnReconnected(func(string) { close(back) })
			begin := time.Now()
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-lost; !errors.Is(err, ErrServerTimeout) || time.Since(begin) != 50*time.Second {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
			<-back
		})
	})
	t.Run("it does not count the time a full queue takes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				const slow = `{"type":1,"target":"slow","arguments":[]}`
				p.sendAndRead(slow, slow, slow, slow)
			})
			c := s.client(Options{HandlerQueue: 1})
			handled := make(chan struct{}, 4)
			c.On("slow", func(Args) { time.Sleep(time.Minute); handled <- struct{}{} })
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 { // two minutes, in which the reader waited for room
				<-handled
			}
			if c.State() != Connected {
				t.Errorf("state %v", c.State())
			}
			<-handled
			<-handled
		})
	})
}

func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		c := newServer(t, func(*peer) { <-release }).client(Options{KeepAliveInterval: time.Hour, ServerTimeout: time.Hour})
		closed := make(chan error, 1)
		c.OnClosed(func(err error) { closed <- err })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := c.Call(context.Background(), "X", string(make([]byte, 1<<16))); !errors.Is(err, ErrWriteTimeout) || !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		if err := <-closed; !errors.Is(err, ErrWriteTimeout) || time.Since(begin) > 2*writeTimeout {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}
