package hub_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// sleeper registers Sleep, which sleeps for the seconds it is told or until
// its context ends, and reports how it ended.
func sleeper(ended chan<- error) func(*hub.Hub) {
	return func(h *hub.Hub) {
		h.Handle("Sleep", hub.Action1(func(ctx context.Context, _ *hub.Caller, seconds int) error {
			timer := time.NewTimer(time.Duration(seconds) * time.Second)
			defer timer.Stop()
			var err error
			select {
			case <-timer.C:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
			ended <- err
			return err
		}))
	}
}

// TestALongCallHoldsUpNothingButCalls: pings, cancels and answers behind it are
// handled at once, and the client is not timed out meanwhile.
func TestALongCallHoldsUpNothingButCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		streamEnded := make(chan struct{})
		h := start(t, hub.Options{ClientTimeoutInterval: 8 * time.Second}, sleeper(ended), func(h *hub.Hub) {
			h.Handle("Watch", hub.Stream0(func(ctx context.Context, _ *hub.Caller) (iter.Seq2[int, error], error) {
				return func(func(int, error) bool) {
					<-ctx.Done()
					close(streamEnded)
				}, nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(p.AppendPing(nil))
		openStream(t, c, p, "watch", "Watch", nil)
		began := time.Now()
		sleep, echo := c.Begin("Sleep", 20), c.Begin("EchoString", "behind")
		c.Write(p.AppendCancelInvocation(nil, "watch"))
		<-streamEnded
		if _, errText, _ := collect(t, c, p, "watch"); errText != "" {
			t.Errorf("the stream ended with %q", errText)
		}
		got := invoke[int](t.Context(), h.Clients().Client(c.ID()), "Ask")
		c.Write(withResult(1)(p, string(asked(t, c).InvocationID)))
		if r := <-got; r.err != nil {
			t.Error(r.err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("cancel and answer took %v", d)
		}
		for range 4 {
			time.Sleep(5 * time.Second)
			c.Write(p.AppendPing(nil))
		}
		for _, want := range []string{sleep, echo} {
			m, err := c.Next()
			if err != nil || m.Type != protocol.Completion || string(m.InvocationID) != want || m.HasError {
				t.Fatalf("type %d for %q, %q, %v; want the answer to %q", m.Type, m.InvocationID, m.Error, err, want)
			}
		}
		<-ended
	})
}

func TestAPlainCallCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		h := start(t, hub.Options{}, sleeper(ended))
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(p.AppendCancelInvocation(nil, "1")) // before there is such a call
		began := time.Now()
		id := c.Begin("Sleep", 30)
		time.Sleep(time.Second)
		c.Write(p.AppendCancelInvocation(nil, id))
		c.Write(p.AppendCancelInvocation(nil, id))
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("the method ended with %v after %v", err, time.Since(began))
		}
		m, err := c.Next()
		if err != nil || m.Type != protocol.Completion || string(m.InvocationID) != id || !m.HasError {
			t.Errorf("type %d for %q, %v; want one completion with an error", m.Type, m.InvocationID, err)
		}
		c.Write(p.AppendCancelInvocation(nil, id)) // after it
		if v, err := c.Invoke("EchoString", []any{"next"}, nil); err != nil || v != "next" {
			t.Errorf("after the call: %v, %v", v, err)
		}
		c.Begin("Sleep", 30)
		synctest.Wait()
		c.HangUp()
		<-ended // within the time of a polite end
		<-c.Over()
	})
}

// TestAnswersToNobodyAreIgnored: late, repeated and made-up ones cost nothing.
func TestAnswersToNobodyAreIgnored(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{})
				c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
				c.Write(withResult(1)(p, "nope"))
				got := invoke[int](t.Context(), h.Clients().Client(c.ID()), "Ask")
				id := string(asked(t, c).InvocationID)
				c.Write(withResult(1)(p, id))
				c.Write(withResult(2)(p, id))
				if r := <-got; r.value != 1 || r.err != nil {
					t.Errorf("got %v, %v, want the first answer", r.value, r.err)
				}
				got = invoke[int](t.Context(), h.Clients().Client(c.ID()), "Ask")
				id = string(asked(t, c).InvocationID)
				if r := <-got; !errors.Is(r.err, hub.ErrNoAnswer) {
					t.Errorf("got %v, want ErrNoAnswer", r.err)
				}
				c.Write(withResult(3)(p, id))
				item(t, c, p, "nope", 1)
				c.Write(p.AppendCancelInvocation(nil, "nope"))
				if v, err := c.Invoke("EchoString", []any{"on"}, nil); err != nil || v != "on" {
					t.Errorf("the connection does not go on: %v, %v", v, err)
				}
				if n := h.Stats().StrayAnswers; n != 4 {
					t.Errorf("%d strays counted, want 4", n)
				}
			})
		})
	}
}
