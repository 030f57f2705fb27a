package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func TestInvoke(t *testing.T) {
	for _, c := range []struct {
		finish string
		answer string // members behind the invocation id
		check  func(got string, err error) bool
	}{
		{"returns a result", `,"result":"hi"`, func(got string, err error) bool { return got == "hi" && err == nil }},
		{"returns the zero value for null", `,"result":null`, func(got string, err error) bool { return got == "" && err == nil }},
		{"returns the zero value without result", ``, func(got string, err error) bool { return got == "" && err == nil }},
		{"returns the hub's error with its target", `,"error":"An unexpected error occurred."`, func(_ string, err error) bool {
			e, ok := errors.AsType[*HubError](err)
			return ok && *e == HubError{"Echo", "An unexpected error occurred."}
		}},
		{"refuses a result of another type", `,"result":{}`, func(_ string, err error) bool {
			_, ok := errors.AsType[*protocol.Error](err)
			return ok
		}},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				m := p.expect(protocol.Invocation)
				if string(m.Target) != "Echo" || len(m.Arguments) != 2 || string(m.Arguments[1]) != "7" {
					t.Errorf("got %s%q", m.Target, m.Arguments)
				}
				p.send(`{"type":3,"invocationId":"` + string(m.InvocationID) + `"` + c.answer + `}`)
				p.drain()
			})
			got, err := Invoke[string](t.Context(), s.started(Options{}), "Echo", "hi", 7)
			if !c.check(got, err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestCallsAnswersAndMessages(t *testing.T) {
	t.Run("it matches answers that come in another order, in one message, in pieces", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			first, second, third := p.expect(protocol.Invocation), p.expect(protocol.Invocation), p.expect(protocol.Invocation)
			p.send(`{"type":3,"invocationId":"unknown","result":0}`, `{"type":99,"new":true}`, completion(third), completion(second))
			whole := completion(first) + "\x1e"
			p.write(whole[:5])
			p.write(whole[5:])
			p.drain()
		})
		c := s.started(Options{})
		var calls sync.WaitGroup
		for i := range 3 {
			calls.Go(func() {
				if got, err := Invoke[int](t.Context(), c, "Echo", i); err != nil || got != i {
					t.Errorf("got %d, %v want %d", got, err, i)
				}
			})
		}
		calls.Wait()
	})
	t.Run("it serves many goroutines", func(t *testing.T) {
		c := newServer(t, echo).started(Options{})
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				for j := range 10 {
					if got, err := Invoke[int](t.Context(), c, "Echo", 100*i+j); err != nil || got != 100*i+j {
						t.Errorf("got %d, %v want %d", got, err, 100*i+j)
					}
				}
			})
		}
		calls.Wait()
	})
	t.Run("it sends without an id, in order, and keeps that order with calls", func(t *testing.T) {
		const sends = 2000 // more than fit into the outgoing buffer
		s := newServer(t, func(p *peer) {
			for i := range sends {
				m := p.expect(protocol.Invocation)
				if len(m.InvocationID) != 0 || string(m.Arguments[0]) != fmt.Sprint(i) {
					t.Errorf("record %d: got id %q, arguments %q", i, m.InvocationID, m.Arguments)
					break
				}
			}
			p.send(completion(p.expect(protocol.Invocation)))
			p.drain()
		})
		c := s.started(Options{})
		for i := range sends {
			if err := c.Send(t.Context(), "Log", i, "some text to fill the buffer with"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Call(t.Context(), "Flush", 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("it speaks MessagePack", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			if p.protocol.Name() != "messagepack" {
				t.Errorf("protocol %s", p.protocol.Name())
			}
			m := p.expect(protocol.Invocation)
			call, _ := p.protocol.AppendInvocation(nil, "", "Hello", []any{[]byte{1, 2}})
			result, _ := p.protocol.AppendResult(call, string(m.InvocationID), "hé")
			p.writeBytes(result)
			p.drain()
		})
		c := s.client(Options{Protocol: protocol.MessagePack{}})
		hello := make(chan []byte, 1)
		c.On("hello", func(a Args) {
			b, err := Arg[[]byte](a, 0)
			if err != nil {
				t.Error(err)
			}
			hello <- b
		})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := Invoke[string](t.Context(), c, "Echo", "hé"); err != nil || got != "hé" {
			t.Errorf("got %q, %v", got, err)
		}
		if got := <-hello; string(got) != "\x01\x02" {
			t.Errorf("got % x", got)
		}
	})
	t.Run("it fails a plain call that is answered with a stream", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.Invocation)
			p.send(`{"type":2,"invocationId":"`+string(m.InvocationID)+`","item":1}`, completion(m))
			p.drain()
		})
		if err := s.started(Options{}).Call(t.Context(), "Stream", 1); !errors.Is(err, errStreamItem) {
			t.Errorf("got %v", err)
		}
	})
}

func completion(m *protocol.Message) string {
	return `{"type":3,"invocationId":"` + string(m.InvocationID) + `","result":` + string(m.Arguments[0]) + `}`
}

func TestCallsThatEnd(t *testing.T) {
	t.Run("it cancels a call whose context ends", func(t *testing.T) {
		called, cancelled := make(chan struct{}), make(chan string, 1)
		s := newServer(t, func(p *peer) {
			id := string(p.expect(protocol.Invocation).InvocationID)
			close(called)
			if got := string(p.expect(protocol.CancelInvocation).InvocationID); got != id {
				t.Errorf("got %q want %q", got, id)
			}
			p.send(`{"type":3,"invocationId":"` + id + `"}`) // too late, ignored
			cancelled <- id
			p.drain()
		})
		c := s.started(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-called; cancel() }()
		if _, err := Invoke[int](ctx, c, "Slow"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-cancelled
		if c.State() != Connected {
			t.Errorf("state %v", c.State())
		}
	})
	t.Run("it does not send what was cancelled before", func(t *testing.T) {
		c := newServer(t, func(p *peer) {
			if m, ok := p.read(); ok && m.Type != protocol.Ping {
				t.Errorf("got a record of type %d", m.Type)
			}
			p.drain()
		}).started(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Call(ctx, "X"); !errors.Is(err, context.Canceled) {
			t.Errorf("call: got %v", err)
		}
		if err := c.Send(ctx, "X"); !errors.Is(err, context.Canceled) {
			t.Errorf("send: got %v", err)
		}
	})
	t.Run("it fails waiting calls when the connection is lost", func(t *testing.T) {
		c := newServer(t, func(p *peer) { p.expect(protocol.Invocation); p.ws.CloseNow() }).started(Options{})
		if err := c.Call(t.Context(), "X"); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it fails waiting calls with the server's reason", func(t *testing.T) {
		c := newServer(t, func(p *peer) {
			p.expect(protocol.Invocation)
			p.send(`{"type":7,"error":"bad"}`)
			p.drain()
		}).started(Options{})
		err := c.Call(t.Context(), "X")
		reason, ok := errors.AsType[*CloseError](err)
		if !errors.Is(err, ErrConnectionLost) || !ok || reason.Text != "bad" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it fails waiting calls at Stop", func(t *testing.T) {
		called := make(chan struct{})
		c := newServer(t, func(p *peer) { p.expect(protocol.Invocation); close(called); p.drain() }).started(Options{})
		failed := make(chan error)
		go func() { failed <- c.Call(t.Context(), "X") }()
		<-called
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, ErrConnectionLost) || !errors.Is(err, ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it refuses calls without a connection", func(t *testing.T) {
		c := newServer(t).client(Options{})
		if err := c.Call(t.Context(), "X"); !errors.Is(err, ErrNotConnected) {
			t.Errorf("call: got %v", err)
		}
		if err := c.Send(t.Context(), "X"); !errors.Is(err, ErrNotConnected) {
			t.Errorf("send: got %v", err)
		}
	})
	t.Run("it refuses arguments that cannot be encoded", func(t *testing.T) {
		c := newServer(t).started(Options{})
		if err := c.Call(t.Context(), "X", func() {}); err == nil || errors.Is(err, ErrConnectionLost) {
			t.Errorf("call: got %v", err)
		}
		if err := c.Send(t.Context(), "X", func() {}); err == nil {
			t.Error("send: got no error")
		}
	})
}

// TestSendWaitsForRoom fills the outgoing buffer of a connection whose server
// does not read.
func TestSendWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := newServer(t, func(p *peer) { <-release; p.drain() }).started(Options{})
		text := string(make([]byte, maxOutboundBytes/4))
		ctx, cancel := context.WithTimeout(t.Context(), writeTimeout/2)
		defer cancel()
		var err error
		sent := 0
		for err == nil {
			err = c.Send(ctx, "X", text)
			sent++
		}
		if !errors.Is(err, context.DeadlineExceeded) || sent > 10 {
			t.Errorf("got %v after %d sends", err, sent)
		}
		close(release)
		if err := c.Send(t.Context(), "X", text); err != nil {
			t.Errorf("after there was room: %v", err)
		}
	})
}
