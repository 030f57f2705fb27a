package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// invocation is a call without id with one argument.
func invocation(target string, arg int) string {
	return fmt.Sprintf(`{"type":1,"target":%q,"arguments":[%d]}`, target, arg)
}

func TestHandlers(t *testing.T) {
	t.Run("it runs handlers one after another in the order of arrival", func(t *testing.T) {
		const n = 500
		s := newServer(t, func(p *peer) {
			var batch []string
			for i := range n {
				if batch = append(batch, invocation("m", i)); i%7 == 0 {
					p.send(batch...)
					batch = nil
				}
			}
			p.send(append(batch, invocation("end", 0))...)
			p.drain()
		})
		c := s.client(Options{HandlerQueue: 3})
		var got []int
		done := make(chan struct{})
		c.On("m", func(a Args) {
			v, err := Arg[int](a, 0)
			if err != nil {
				t.Error(err)
			}
			got = append(got, v)
		})
		c.On("end", func(Args) { close(done) })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		if len(got) != n || !slices.IsSorted(got) {
			t.Errorf("got %d calls, sorted %v", len(got), slices.IsSorted(got))
		}
	})
	t.Run("it ignores case, runs all handlers in order and forgets removed ones", func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			p.send(invocation("NewMessage", 1), invocation("nobody", 0), invocation("NEWMESSAGE", 2), invocation("end", 0))
			p.drain()
		})
		c := s.client(Options{})
		var got []string
		done := make(chan struct{})
		var removeFirst func()
		removeFirst = c.On("newmessage", func(a Args) { got = append(got, "first "+string(a.Raw(0))); removeFirst() })
		c.On("NewMessage", func(a Args) { got = append(got, "second "+string(a.Raw(0))) })
		removeThird := c.On("newMessage", func(Args) { t.Error("a removed handler ran") })
		removeThird()
		removeThird()
		c.On("End", func(Args) { close(done) })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		if want := []string{"first 1", "second 1", "second 2"}; !slices.Equal(got, want) {
			t.Errorf("got %v want %v", got, want)
		}
		removeFirst() // again
	})
	t.Run("it lets a handler call the hub", func(t *testing.T) {
		s := newServer(t, func(p *peer) { p.send(invocation("ask", 4)); echo(p) })
		c := s.client(Options{})
		got := make(chan int, 1)
		c.On("ask", func(Args) {
			v, err := Invoke[int](t.Context(), c, "Echo", 4)
			if err != nil {
				t.Error(err)
			}
			got <- v
		})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v != 4 {
			t.Errorf("got %d", v)
		}
	})
}

// TestHandlerQueueIsBounded counts what a client takes while a handler does
// not return.
func TestHandlerQueueIsBounded(t *testing.T) {
	for _, c := range []struct {
		finish  string
		opts    Options
		padding int
		want    int
	}{
		{"takes no more records than the queue holds", Options{HandlerQueue: 4}, 0, 1 + 4 + 1},
		{"takes no more bytes than the queue holds", Options{}, maxHandlerBytes / 2, 1 + 1 + 1},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taken := 0
				s := newServer(t, func(p *peer) {
					record := `{"type":1,"target":"m","arguments":["` + strings.Repeat("x", c.padding) + `"]}`
					for p.ws.Write(t.Context(), 1, []byte(record+"\x1e")) == nil {
						taken++
					}
				})
				client := s.client(c.opts)
				release, running := make(chan struct{}), make(chan struct{})
				var once sync.Once
				client.On("m", func(Args) { once.Do(func() { close(running) }); <-release })
				if err := client.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-running
				synctest.Wait()
				// One runs, the queue is full, one is in the reader's hands;
				// the library may have buffered a part of what follows.
				if taken < c.want || taken > c.want+2 {
					t.Errorf("took %d records want %d", taken, c.want)
				}
				client.session.att.conn.cut()
				close(release)
			})
		})
	}
}

func TestClientResults(t *testing.T) {
	for _, c := range []struct {
		finish   string
		register func(c *Client)
		want     string // what follows the id
	}{
		{"answers with a result", func(c *Client) {
			OnResult(c, "ask", func(a Args) (int, error) { v, err := Arg[int](a, 0); return v + 1, err })
		}, `"result":42`},
		{"answers with null", func(c *Client) {
			OnResult(c, "ask", func(Args) (*int, error) { return nil, nil })
		}, `"result":null`},
		{"answers with an error", func(c *Client) {
			OnResult(c, "ask", func(Args) (int, error) { return 0, errors.New("boom") })
		}, `"error":"boom"`},
		{"answers with a text even for an empty error", func(c *Client) {
			OnResult(c, "ask", func(Args) (int, error) { return 0, errors.New("") })
		}, `"error":"Client didn't provide a result."`},
		{"answers without a handler", func(*Client) {}, `"error":"Client didn't provide a result."`},
		{"answers for a handler without result", func(c *Client) {
			c.On("ask", func(Args) {})
		}, `"error":"Client didn't provide a result."`},
		{"takes the result of the only handler that has one", func(c *Client) {
			c.On("ask", func(Args) {})
			OnResult(c, "Ask", func(Args) (string, error) { return "one", nil })
		}, `"result":"one"`},
		{"refuses two results", func(c *Client) {
			OnResult(c, "ask", func(Args) (int, error) { return 1, nil })
			OnResult(c, "ask", func(Args) (int, error) { return 2, nil })
		}, `"error":"Client provided multiple results."`},
		{"prefers an error to the result of another handler", func(c *Client) {
			OnResult(c, "ask", func(Args) (int, error) { return 0, errors.New("boom") })
			OnResult(c, "ask", func(Args) (int, error) { return 2, nil })
		}, `"error":"boom"`},
		{"answers for a result that cannot be encoded", func(c *Client) {
			OnResult(c, "ask", func(Args) (func(), error) { return func() {}, nil })
		}, `"error":`},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			answers := make(chan string, 1)
			s := newServer(t, func(p *peer) {
				p.send(`{"type":1,"invocationId":"s1","target":"ask","arguments":[41]}`, `{"type":1,"target":"ask","arguments":[41]}`)
				m := p.expect(protocol.Completion)
				switch {
				case string(m.InvocationID) != "s1":
					t.Errorf("id %q", m.InvocationID)
				case m.HasError:
					answers <- `"error":"` + string(m.Error) + `"`
				case m.HasValue:
					answers <- `"result":` + string(m.Value)
				}
				p.drain()
			})
			client := s.client(Options{})
			c.register(client)
			if err := client.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-answers; got != c.want && (c.want != `"error":` || len(got) <= len(`"error":""`)) {
				t.Errorf("got %s want %s", got, c.want)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	a := Args{protocol: protocol.JSON{}, raw: [][]byte{[]byte(`1`), []byte(`"two"`), []byte(`{"x":3}`)}}
	var n int
	var s string
	var o struct{ X int }
	if err := a.Bind(&n, &s, &o); err != nil || n != 1 || s != "two" || o.X != 3 {
		t.Errorf("got %d %q %+v, %v", n, s, o, err)
	}
	if err := a.Bind(&n); err != nil {
		t.Errorf("fewer pointers than arguments: %v", err)
	}
	if a.Bind(&n, &s, &o, &n) == nil {
		t.Error("more pointers than arguments: no error")
	}
	var bad *protocol.Error
	if err := a.Bind(&s); !errors.As(err, &bad) {
		t.Errorf("a value that does not fit: %v", err)
	}
	if v, err := Arg[string](a, 1); err != nil || v != "two" {
		t.Errorf("got %q, %v", v, err)
	}
	if _, err := Arg[int](a, 1); !errors.As(err, &bad) {
		t.Errorf("a value that does not fit: %v", err)
	}
	for _, i := range []int{-1, 3} {
		if _, err := Arg[int](a, i); err == nil || a.Raw(i) != nil {
			t.Errorf("argument %d: %v, %q", i, err, a.Raw(i))
		}
	}
	if a.Len() != 3 {
		t.Errorf("got %d arguments", a.Len())
	}
}

func TestStates(t *testing.T) {
	for s, want := range map[State]string{
		Disconnected: "Disconnected", Connecting: "Connecting", Connected: "Connected",
		Reconnecting: "Reconnecting", Disconnecting: "Disconnecting",
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q want %q", got, want)
		}
	}
}

// TestErrorTexts: each names what it is about.
func TestErrorTexts(t *testing.T) {
	for err, want := range map[error]string{
		&HubError{"Send", "no"}:        "client: Send: no",
		&CloseError{Text: "bad"}:       "client: server returned an error on close: bad",
		&HandshakeError{"no"}:          "client: handshake refused: no",
		&NegotiateError{"no"}:          "client: negotiate refused: no",
		&StatusError{"negotiate", 401}: "client: negotiate: status 401 Unauthorized",
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q want %q", got, want)
		}
	}
}

func TestOnAnySeesEveryCall(t *testing.T) {
	s := newServer(t, func(p *peer) {
		p.send(`{"type":1,"target":"A","arguments":[1]}`, `{"type":1,"target":"b","arguments":["x",null]}`)
		p.drain()
	})
	c := s.client(Options{})
	got := make(chan string, 4)
	c.On("a", func(Args) { got <- "named" })
	remove := c.OnAny(func(target string, args Args) {
		text, err := args.Value(args.Len() - 1).MarshalJSON()
		if err != nil {
			t.Error(err)
		}
		got <- target + string(text)
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"named", "A1", "bnull"} {
		if s := <-got; s != want {
			t.Errorf("got %q, want %q", s, want)
		}
	}
	remove()
}
