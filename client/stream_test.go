package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func item(id []byte, value any) string {
	return fmt.Sprintf(`{"type":2,"invocationId":"%s","item":%v}`, id, value)
}

// collect ranges over a stream to its end.
func collect[T any](ctx context.Context, c *Client, args ...any) (got []T, err error) {
	for v, e := range Stream[T](ctx, c, "Count", args...) {
		if e != nil {
			err = e
			continue // the last
		}
		got = append(got, v)
	}
	return got, err
}

func TestStream(t *testing.T) {
	hubError := func(err error) bool { e, ok := errors.AsType[*HubError](err); return ok && e.Text == "boom" }
	for _, c := range []struct {
		finish string
		items  []any
		end    string // members of the Completion
		want   []int
		check  func(error) bool
	}{
		{"yields the items in order", []any{1, 2, 3}, ``, []int{1, 2, 3}, func(err error) bool { return err == nil }},
		{"yields nothing of an empty stream", nil, ``, nil, func(err error) bool { return err == nil }},
		{"ignores a result at the end", []any{1}, `,"result":7`, []int{1}, func(err error) bool { return err == nil }},
		{"yields the hub's error behind the items", []any{1, 2}, `,"error":"boom"`, []int{1, 2}, hubError},
		{"yields the hub's refusal", nil, `,"error":"boom"`, nil, hubError},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				m := p.expect(protocol.StreamInvocation)
				if string(m.Target) != "Count" || len(m.Arguments) != 1 || string(m.Arguments[0]) != `"x"` {
					t.Errorf("got %s%q", m.Target, m.Arguments)
				}
				p.send(item([]byte("unknown"), 9))
				for _, v := range c.items {
					p.send(item(m.InvocationID, v))
				}
				p.send(fmt.Sprintf(`{"type":3,"invocationId":"%s"%s}`, m.InvocationID, c.end), item(m.InvocationID, 99))
				p.drain()
			})
			client := s.started(Options{})
			got, err := collect[int](t.Context(), client, "x")
			if !slices.Equal(got, c.want) || !c.check(err) {
				t.Errorf("got %v, %v want %v", got, err, c.want)
			}
		})
	}
	t.Run("it serves two streams and a call at once", func(t *testing.T) {
		both := make(chan struct{})
		s := newServer(t, func(p *peer) {
			a, b := p.expect(protocol.StreamInvocation), p.expect(protocol.StreamInvocation)
			close(both)
			call := p.expect(protocol.Invocation)
			p.send(item(a.InvocationID, 1), item(b.InvocationID, 10), completion(call), item(a.InvocationID, 2), item(b.InvocationID, 20))
			p.send(`{"type":3,"invocationId":"`+string(b.InvocationID)+`"}`, `{"type":3,"invocationId":"`+string(a.InvocationID)+`"}`)
			p.drain()
		})
		c := s.started(Options{})
		type result struct {
			sum int
			err error
		}
		results := make(chan result, 3)
		for range 2 {
			go func() {
				got, err := collect[int](t.Context(), c)
				sum := 0
				for _, v := range got {
					sum += v
				}
				results <- result{sum, err}
			}()
		}
		<-both
		go func() { v, err := Invoke[int](t.Context(), c, "Echo", 5); results <- result{v, err} }()
		total := 0
		for range 3 {
			r := <-results
			if r.err != nil {
				t.Error(r.err)
			}
			total += r.sum
		}
		if total != 1+2+10+20+5 {
			t.Errorf("got %d", total)
		}
	})
}

func TestStreamsThatEnd(t *testing.T) {
	counting := func(cancelled chan<- string) script {
		return func(p *peer) {
			m := p.expect(protocol.StreamInvocation)
			p.send(item(m.InvocationID, 1), item(m.InvocationID, 2), item(m.InvocationID, 3))
			if got := string(p.expect(protocol.CancelInvocation).InvocationID); got != string(m.InvocationID) {
				t.Errorf("cancelled %q", got)
			}
			p.send(item(m.InvocationID, 4), `{"type":3,"invocationId":"`+string(m.InvocationID)+`"}`) // late
			cancelled <- string(m.InvocationID)
			echo(p)
		}
	}
	for _, c := range []struct {
		finish string
		leave  func(ctx context.Context, cancel func(), c *Client) error
		want   error
	}{
		{"cancels when the loop is left", func(ctx context.Context, _ func(), c *Client) error {
			for _, err := range Stream[int](ctx, c, "Count") {
				return err
			}
			return errors.New("no item")
		}, nil},
		{"cancels when the context ends", func(ctx context.Context, cancel func(), c *Client) (err error) {
			for _, err = range Stream[int](ctx, c, "Count") {
				cancel()
			}
			return err
		}, context.Canceled},
		{"cancels when an item does not fit", func(ctx context.Context, _ func(), c *Client) (err error) {
			for _, err = range Stream[string](ctx, c, "Count") {
			}
			if _, ok := errors.AsType[*protocol.Error](err); ok {
				return nil
			}
			return err
		}, nil},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			cancelled := make(chan string, 1)
			client := newServer(t, counting(cancelled)).started(Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := c.leave(ctx, cancel, client); !errors.Is(err, c.want) {
				t.Errorf("got %v want %v", err, c.want)
			}
			<-cancelled
			if v, err := Invoke[int](t.Context(), client, "Echo", 8); err != nil || v != 8 {
				t.Errorf("afterwards: got %d, %v", v, err)
			}
		})
	}
	t.Run("it ends with the connection, behind what came before", func(t *testing.T) {
		c := newServer(t, func(p *peer) {
			m := p.expect(protocol.StreamInvocation)
			p.send(item(m.InvocationID, 1), item(m.InvocationID, 2))
			p.send(`{"type":7,"error":"bad"}`)
			p.drain()
		}).started(Options{})
		got, err := collect[int](t.Context(), c)
		if !slices.Equal(got, []int{1, 2}) || !errors.Is(err, ErrConnectionLost) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("it yields one error without a connection", func(t *testing.T) {
		got, err := collect[int](t.Context(), newServer(t).client(Options{}))
		if got != nil || !errors.Is(err, ErrNotConnected) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("it makes no call when the context has ended", func(t *testing.T) {
		c := newServer(t, func(p *peer) {
			for m, ok := p.read(); ok; m, ok = p.read() {
				if m.Type == protocol.StreamInvocation {
					t.Error("a call was made")
				}
			}
		}).started(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := collect[int](ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestStreamBufferIsBounded has a loop that is slower than the hub.
func TestStreamBufferIsBounded(t *testing.T) {
	stream := func(n int) script {
		return func(p *peer) {
			m := p.expect(protocol.StreamInvocation)
			records := make([]string, 0, n+1)
			for i := range n {
				records = append(records, item(m.InvocationID, i))
			}
			p.sendAndRead(append(records, `{"type":3,"invocationId":"`+string(m.InvocationID)+`"}`)...)
		}
	}
	t.Run("it makes the reader wait for a slow loop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newServer(t, stream(50)).started(Options{StreamBufferCapacity: 3})
			want := 0
			for v, err := range Stream[int](t.Context(), c, "Count") {
				if err != nil || v != want {
					t.Fatalf("got %d, %v want %d", v, err, want)
				}
				want++
				time.Sleep(stallTimeout / 2)
			}
			if want != 50 {
				t.Errorf("got %d items", want)
			}
		})
	})
	t.Run("it ends a stream whose loop stands still", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newServer(t, stream(50)).started(Options{StreamBufferCapacity: 3})
			var got []int
			var last error
			for v, err := range Stream[int](t.Context(), c, "Count") {
				if last = err; err != nil {
					break
				}
				if got = append(got, v); len(got) == 1 {
					time.Sleep(stallTimeout + time.Second)
				}
			}
			if !errors.Is(last, ErrStreamStalled) || !slices.Equal(got, []int{0, 1, 2, 3}) {
				t.Errorf("got %v, %v", got, last)
			}
			if c.State() != Connected {
				t.Errorf("state %v", c.State())
			}
		})
	})
	t.Run("it frees the reader when the loop is left", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newServer(t, func(p *peer) {
				m := p.expect(protocol.StreamInvocation)
				for i := range 20 {
					p.send(item(m.InvocationID, i))
				}
				echo(p)
			}).started(Options{StreamBufferCapacity: 3})
			for range Stream[int](t.Context(), c, "Count") {
				synctest.Wait() // the reader waits
				break
			}
			begin := time.Now()
			if v, err := Invoke[int](t.Context(), c, "Echo", 8); err != nil || v != 8 || time.Since(begin) != 0 {
				t.Errorf("got %d, %v after %v", v, err, time.Since(begin))
			}
		})
	})
}
