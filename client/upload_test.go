package client

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// values is a sequence without errors.
func values[T any](vs ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range vs {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// failing yields one value and an error.
func failing(err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if yield(1, nil) {
			yield(0, err)
		}
	}
}

// upload reads one stream to its end and returns its items and the end.
func (p *peer) upload(id []byte) (items []string, end string) {
	p.t.Helper()
	for {
		m, ok := p.read()
		switch {
		case !ok:
			return items, "connection"
		case string(m.InvocationID) != string(id):
		case m.Type == protocol.StreamItem:
			items = append(items, string(m.Value))
		case m.Type == protocol.Completion && m.HasError:
			return items, "error " + string(m.Error)
		case m.Type == protocol.Completion && !m.HasValue:
			return items, "end"
		}
	}
}

func TestUpload(t *testing.T) {
	for _, c := range []struct {
		finish string
		arg    any
		items  []string
		end    string
	}{
		{"sends items and the end", Upload(values(1, 2, 3)), []string{"1", "2", "3"}, "end"},
		{"sends an empty stream", Upload(values[int]()), nil, "end"},
		{"sends the zero UploadStream as an empty stream", UploadStream{}, nil, "end"},
		{"sends an error of the sequence", Upload(failing(errors.New("uperr"))), []string{"1"}, "error uperr"},
		{"sends a text even for an empty error", Upload(failing(errors.New(""))), []string{"1"}, "error Unknown error."},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				m := p.expect(protocol.Invocation)
				if len(m.StreamIDs) != 1 || len(m.Arguments) != 2 || string(m.Arguments[0]) != `"a"` || string(m.Arguments[1]) != `"b"` {
					t.Errorf("streams %q arguments %q", m.StreamIDs, m.Arguments)
				}
				items, end := p.upload(m.StreamIDs[0])
				if !slices.Equal(items, c.items) || end != c.end {
					t.Errorf("got %q, %s want %q, %s", items, end, c.items, c.end)
				}
				p.send(completion(m))
				p.drain()
			})
			if got, err := Invoke[string](t.Context(), s.started(Options{}), "Up", "a", c.arg, "b"); err != nil || got != "a" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("it ends a stream whose item cannot be encoded", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.Invocation)
			if items, end := p.upload(m.StreamIDs[0]); len(items) != 0 || len(end) <= len("error ") {
				t.Errorf("got %q, %s", items, end)
			}
			p.send(completion(m))
			p.drain()
		})
		if err := s.started(Options{}).Call(t.Context(), "Up", 1, Upload(values(func() {}))); err != nil {
			t.Error(err)
		}
	})
	t.Run("it sends more items than fit into the outgoing buffer", func(t *testing.T) {
		const n = 5000
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.Invocation)
			if items, end := p.upload(m.StreamIDs[0]); len(items) != n || end != "end" {
				t.Errorf("got %d items, %s", len(items), end)
			}
			p.send(completion(m))
			p.drain()
		})
		many := func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					t.Error("left before its end")
					return
				}
			}
		}
		if err := s.started(Options{}).Call(t.Context(), "Up", 1, Upload(many)); err != nil {
			t.Error(err)
		}
	})
	t.Run("it sends without waiting for an answer", func(t *testing.T) {
		done := make(chan struct{})
		s := newServer(t, func(p *peer) {
			defer close(done)
			m := p.expect(protocol.Invocation)
			items, end := p.upload(m.StreamIDs[0])
			if len(m.InvocationID) != 0 || len(items) != 2 || end != "end" {
				t.Errorf("got id %q, %q, %s", m.InvocationID, items, end)
			}
		})
		if err := s.started(Options{}).Send(t.Context(), "Up", Upload(values("a", "b"))); err != nil {
			t.Error(err)
		}
		<-done
	})
	t.Run("it uploads two streams while it streams", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.StreamInvocation)
			if len(m.StreamIDs) != 2 || len(m.Arguments) != 0 {
				t.Errorf("streams %q arguments %q", m.StreamIDs, m.Arguments)
			}
			for ends := 0; ends < 2; {
				m2, ok := p.read()
				switch {
				case !ok:
					t.Error("connection ended")
					return
				case m2.Type == protocol.StreamItem:
					p.send(item(m.InvocationID, string(m2.Value)))
				case m2.Type == protocol.Completion:
					ends++
				}
			}
			p.send(`{"type":3,"invocationId":"` + string(m.InvocationID) + `"}`)
			p.drain()
		})
		got, err := collect[int](t.Context(), s.started(Options{}), Upload(values(1, 2)), Upload(values(10, 20)))
		slices.Sort(got)
		if !slices.Equal(got, []int{1, 2, 10, 20}) || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// endless counts until it is left, and says so.
func endless(left chan<- struct{}) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer close(left)
		for i := 0; yield(i, nil); i++ {
		}
	}
}

func TestUploadsThatEnd(t *testing.T) {
	t.Run("it leaves the sequence when the call has ended before it", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			m := p.expect(protocol.Invocation)
			p.expect(protocol.StreamItem)
			p.sendAndRead(completion(m))
		})
		left := make(chan struct{})
		if v, err := Invoke[int](t.Context(), s.started(Options{}), "Up", 3, Upload(endless(left))); err != nil || v != 3 {
			t.Errorf("got %d, %v", v, err)
		}
		<-left
	})
	t.Run("it leaves the sequence and tells the hub when the caller gives up", func(t *testing.T) {
		first, done := make(chan struct{}), make(chan struct{})
		s := newServer(t, func(p *peer) {
			defer close(done)
			m := p.expect(protocol.Invocation)
			p.expect(protocol.StreamItem)
			close(first)
			for cancelled := false; ; {
				m2, ok := p.read()
				switch {
				case !ok:
					t.Error("connection ended")
					return
				case m2.Type == protocol.CancelInvocation:
					cancelled = true
				case m2.Type == protocol.Completion:
					if !cancelled || string(m2.InvocationID) != string(m.StreamIDs[0]) || string(m2.Error) != textUploadCanceled {
						t.Errorf("got %q %q, cancelled %v", m2.InvocationID, m2.Error, cancelled)
					}
					return
				}
			}
		})
		c := s.started(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-first; cancel() }()
		left := make(chan struct{})
		if err := c.Call(ctx, "Up", Upload(endless(left))); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		<-left
		<-done
	})
	t.Run("it leaves the sequence when the connection ends", func(t *testing.T) {
		for _, send := range []bool{false, true} {
			c := newServer(t, func(p *peer) { p.expect(protocol.Invocation); p.expect(protocol.StreamItem); p.ws.CloseNow() }).started(Options{})
			left := make(chan struct{})
			call := func() error { return c.Call(t.Context(), "Up", Upload(endless(left))) }
			if send {
				call = func() error { return c.Send(t.Context(), "Up", Upload(endless(left))) }
			}
			if err := call(); !send && !errors.Is(err, ErrConnectionLost) {
				t.Errorf("got %v", err)
			}
			<-left
		}
	})
	t.Run("it waits at Stop for sequences that run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newServer(t).started(Options{})
			waits, release := make(chan struct{}), make(chan struct{})
			stuck := func(func(int, error) bool) { close(waits); <-release }
			if err := c.Send(t.Context(), "Up", Upload(stuck)); err != nil {
				t.Fatal(err)
			}
			<-waits
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Stop(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			close(release)
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("it slows the sequence down to what the server takes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			c := newServer(t, func(p *peer) { <-release; p.drain() }).started(Options{})
			yielded := 0
			text := string(make([]byte, maxOutboundBytes/4))
			big := func(yield func(string, error) bool) {
				for yield(text, nil) {
					yielded++
				}
			}
			if err := c.Send(t.Context(), "Up", Upload(big)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if yielded > 10 {
				t.Errorf("yielded %d items", yielded)
			}
			close(release)
		})
	})
}
