package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A stateful is the server's half of a connection with stateful reconnects, by
// the letter of HubProtocol.md, on one socket after another.
type stateful struct {
	t        *testing.T
	sent     []string // records, since the beginning
	acked    int      // of sent, by the client
	received int      // number of the last record handled
	next     int      // number of the next one on this socket
	acks     int      // Acks that came
	handle   func(m *protocol.Message)
}

// attach begins on another socket.
func (s *stateful) attach(p *peer) {
	p.send(append([]string{fmt.Sprintf(`{"type":9,"sequenceId":%d}`, s.acked+1)}, s.sent[s.acked:]...)...)
	m, ok := p.read()
	switch {
	case !ok:
		return
	case m.Type != protocol.Sequence || m.SequenceID > int64(s.next):
		s.t.Errorf("first record: got type %d, number %d, want a Sequence of at most %d", m.Type, m.SequenceID, s.next)
	}
	s.next = int(m.SequenceID)
}

// send sends a record, or with lose puts it on a wire that breaks.
func (s *stateful) send(p *peer, record string, lose bool) {
	s.sent = append(s.sent, record)
	if !lose {
		p.send(record)
	}
}

// read handles the next record, unless it is to be lost.
func (s *stateful) read(p *peer, lose bool) bool {
	m, ok := p.read()
	switch {
	case !ok:
		return false
	case lose:
	case m.Type == protocol.Ack:
		if m.SequenceID > int64(len(s.sent)) {
			s.t.Errorf("Ack %d of %d", m.SequenceID, len(s.sent))
		}
		s.acks++
		s.acked = max(s.acked, int(m.SequenceID))
	case counted(m.Type):
		s.next++
		if s.next-1 > s.received {
			s.received = s.next - 1
			s.handle(m)
		}
	}
	return true
}

// TestResume cuts the socket again and again, with records lost in both
// directions, while numbers go both ways.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		got, cuts := 0, 0
		over := make(chan struct{})
		state := &stateful{t: t, next: 1}
		run := func(p *peer) {
			for i := 0; ; i++ {
				lose := i >= 20+cuts%7
				if i >= 25+cuts%7 && cuts < 40 {
					cuts++
					p.ws.CloseNow()
					return
				}
				if len(state.sent) < n {
					state.send(p, invocation("n", len(state.sent)), lose && cuts < 40)
				}
				if i%10 == 0 {
					p.send(fmt.Sprintf(`{"type":8,"sequenceId":%d}`, state.received))
				}
				if !state.read(p, lose && cuts < 40) {
					return
				}
			}
		}
		state.handle = func(m *protocol.Message) {
			if string(m.Target) == "N" {
				if string(m.Arguments[0]) != fmt.Sprint(got) {
					t.Errorf("server: got %s want %d", m.Arguments[0], got)
				}
				if got++; got == n {
					close(over)
				}
			}
		}
		s := newServer(t, run)
		s.resumable = true
		s.resumed = func(p *peer) { state.attach(p); run(p) }
		c := s.client(Options{StatefulReconnect: true, Reconnect: DefaultRetryDelays()})
		want := 0
		heard := make(chan struct{})
		c.On("n", func(a Args) {
			if v, err := Arg[int](a, 0); err != nil || v != want {
				t.Errorf("client: got %d, %v want %d", v, err, want)
			}
			if want++; want == n {
				close(heard)
			}
		})
		c.OnReconnecting(func(err error) { t.Errorf("reconnecting: %v", err) })
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := c.Send(t.Context(), "N", i); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		<-over
		for want := 0; want < n; { // the server sends when it is sent to
			select {
			case <-heard:
				want = n
			case <-time.After(time.Millisecond):
				if err := c.Send(t.Context(), "More"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.ConnectionID() != "c1" || len(s.seen("/negotiate")) != 1 || len(s.seen("/chat")) != cuts+1 || cuts != 40 {
			t.Errorf("id %q, %d negotiations, %d sockets, %d cuts", c.ConnectionID(), len(s.seen("/negotiate")), len(s.seen("/chat")), cuts)
		}
		time.Sleep(2 * ackDelay)
		synctest.Wait()
		if state.acks == 0 {
			t.Error("no Acks came")
		}
	})
}

// TestResumeKeepsCalls: an answer and a stream come over the next socket, and
// what comes before its Sequence does not count.
func TestResumeKeepsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(p *peer) {
			p.expect(protocol.Invocation)
			p.expect(protocol.StreamInvocation)
			p.send(item([]byte("2"), 1))
			synctest.Wait() // the item has arrived
			p.ws.CloseNow()
		})
		s.resumable = true
		s.resumed = func(p *peer) {
			if m := p.expect(protocol.Sequence); m.SequenceID != 1 {
				t.Errorf("Sequence %d", m.SequenceID)
			}
			for _, want := range []protocol.Type{protocol.Invocation, protocol.StreamInvocation} {
				p.expect(want)
			}
			p.send(`{"type":6}`, item([]byte("2"), 99), `{"type":7}`) // too early
			p.send(`{"type":9,"sequenceId":1}`, item([]byte("2"), 1), item([]byte("2"), 2), `{"type":3,"invocationId":"2"}`, `{"type":3,"invocationId":"1","result":5}`)
			if m := p.expect(protocol.Ack); m.SequenceID != 1 {
				t.Errorf("Ack %d", m.SequenceID)
			}
			p.drain()
		}
		c := s.started(Options{StatefulReconnect: true})
		answer := make(chan error, 1)
		go func() {
			v, err := Invoke[int](t.Context(), c, "Slow")
			if err == nil && v != 5 {
				err = fmt.Errorf("got %d", v)
			}
			answer <- err
		}()
		synctest.Wait()
		if got, err := collect[int](t.Context(), c); err != nil || fmt.Sprint(got) != "[1 2]" {
			t.Errorf("got %v, %v", got, err)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}

// TestAcks: one second after the first record that is not acknowledged, or
// once there are many bytes.
func TestAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		acks := make(chan string, 10)
		s := newServer(t, func(p *peer) {
			p.send(invocation("x", 1), `{"type":6}`, `{"type":2,"invocationId":"unknown","item":1}`)
			timer := time.AfterFunc(500*time.Millisecond, func() { p.send(`{"type":3,"invocationId":"unknown"}`) })
			defer timer.Stop()
			big := time.AfterFunc(5*time.Second, func() {
				p.send(`{"type":1,"target":"x","arguments":["` + strings.Repeat("x", ackBytes) + `"]}`)
			})
			defer big.Stop()
			for m, ok := p.read(); ok; m, ok = p.read() {
				if m.Type == protocol.Ack {
					acks <- fmt.Sprint(m.SequenceID, " ", time.Since(begin))
				}
			}
		})
		s.resumable = true
		c := s.started(Options{StatefulReconnect: true})
		for _, want := range []string{"3 1s", "4 5s"} {
			if got := <-acks; got != want {
				t.Errorf("got Ack %s want %s", got, want)
			}
		}
		time.Sleep(10 * time.Second)
		if len(acks) != 0 || c.State() != Connected {
			t.Errorf("%d more Acks, state %v", len(acks), c.State())
		}
	})
}

// TestResumeBufferIsBounded: calls wait while too much is not acknowledged.
func TestResumeBufferIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ack := make(chan int)
		s := newServer(t, func(p *peer) {
			go func() {
				for n := range ack {
					p.send(fmt.Sprintf(`{"type":8,"sequenceId":%d}`, n))
				}
			}()
			p.drain()
		})
		s.resumable = true
		c := s.started(Options{StatefulReconnect: true, StatefulReconnectBufferSize: 1000})
		text := strings.Repeat("x", 600)
		for range 2 { // the second one crosses the limit
			if err := c.Send(t.Context(), "X", text); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(ctx, "X", text); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("over the limit: got %v", err)
		}
		ack <- 1
		if err := c.Send(t.Context(), "X", text); err != nil {
			t.Error(err)
		}
		ack <- 99 // more than were sent
		close(ack)
		for range 2 {
			if err := c.Send(t.Context(), "X", text); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNoResume: what is no reason to open another socket, and what becomes of
// sockets that cannot be had.
func TestNoResume(t *testing.T) {
	cut := func(p *peer) { p.ws.CloseNow() }
	for _, c := range []struct {
		finish  string
		end     func(p *peer)
		refuse  int    // status for sockets that come again
		resumed script // for those that are not refused
		sockets int    // of the first connection
		err     string
	}{
		{"after a Close record that allows reconnects", func(p *peer) { p.send(`{"type":7,"allowReconnect":true}`); p.drain() }, 0, nil, 1, ""},
		{"after a normal close frame", func(p *peer) { p.ws.Close(websocket.StatusNormalClosure, "") }, 0, nil, 1, ""},
		{"after another close frame", func(p *peer) { p.ws.Close(websocket.StatusGoingAway, "") }, 0, nil, 1, "StatusGoingAway"},
		{"after a malformed record", func(p *peer) { p.send(`{"type":1}`); p.drain() }, 0, nil, 1, "Missing required"},
		{"when the server has forgotten it", cut, 404, nil, 2, "client: read"},
		{"when the server has switched it off", cut, 409, nil, 2, "client: read"},
		{"when the Sequence is from the future", cut, 0, func(p *peer) { p.send(`{"type":9,"sequenceId":2}`); p.drain() }, 2, "Sequence ID greater"},
		{"when no socket lasts until its Sequence", cut, 0, cut, 4, "client: read"},
	} {
		t.Run("it does not resume "+c.finish, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, c.end, echo)
				s.resumable, s.resumed = true, c.resumed
				sockets := 0
				s.upgrade = func(w http.ResponseWriter, r *http.Request) bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					if r.URL.Query().Get("id") != "t1" {
						return true
					}
					if sockets++; sockets > 1 && c.refuse != 0 {
						w.WriteHeader(c.refuse)
						return false
					}
					return true
				}
				client := s.client(Options{StatefulReconnect: true, Reconnect: RetryDelays(0)})
				back := make(chan string, 1)
				client.OnReconnecting(func(err error) { requireText(t, err, c.err) })
				client.OnReconnected(func(id string) { back <- id })
				if err := client.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if id := <-back; id != "c2" {
					t.Errorf("reconnected as %q", id)
				}
				if v, err := Invoke[int](t.Context(), client, "Echo", 1); err != nil || v != 1 {
					t.Errorf("got %d, %v", v, err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if sockets != c.sockets {
					t.Errorf("got %d sockets want %d", sockets, c.sockets)
				}
			})
		})
	}
}

// TestResumeAfterSilence: a socket on which the server is silent, or takes
// nothing, counts as lost.
func TestResumeAfterSilence(t *testing.T) {
	for _, c := range []struct {
		finish string
		first  script
		after  time.Duration
	}{
		{"the server is silent", func(p *peer) { p.drain() }, defaultServerTimeout},
		{"the server takes nothing", func(p *peer) { <-p.t.(*testing.T).Context().Done() }, writeTimeout},
	} {
		t.Run("it resumes when "+c.finish, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resumed := make(chan time.Duration, 1)
				begin := time.Now()
				s := newServer(t, c.first)
				s.resumable = true
				s.resumed = func(p *peer) {
					resumed <- time.Since(begin)
					p.send(`{"type":9,"sequenceId":1}`)
					p.drain()
				}
				client := s.started(Options{StatefulReconnect: true})
				if got := <-resumed; got != c.after || client.State() != Connected {
					t.Errorf("resumed after %v want %v, state %v", got, c.after, client.State())
				}
			})
		})
	}
}

func TestStatefulReconnectIsAgreed(t *testing.T) {
	t.Run("it asks, and does without where the server does not agree", func(t *testing.T) {
		s := newServer(t, echo)
		c := s.started(Options{StatefulReconnect: true})
		if got, want := s.seen("/negotiate")[0].RequestURI, "/chat/negotiate?negotiateVersion=1&useStatefulReconnect=true"; got != want {
			t.Errorf("got %s want %s", got, want)
		}
		if c.session.resume != nil {
			t.Error("agreed with nobody")
		}
	})
	t.Run("it does without on other transports", func(t *testing.T) {
		s := newServer(t, echo)
		s.resumable = true
		c := s.started(Options{StatefulReconnect: true, Transports: []Transport{LongPolling}})
		if c.session.resume != nil {
			t.Error("agreed on long polling")
		}
	})
	t.Run("it stops in an attempt to resume", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, func(p *peer) { p.ws.CloseNow() })
			s.resumable = true
			reached := make(chan struct{})
			sockets := 0
			s.upgrade = func(_ http.ResponseWriter, r *http.Request) bool {
				s.mu.Lock()
				sockets++
				again := sockets > 1
				s.mu.Unlock()
				if again {
					close(reached)
					<-r.Context().Done()
				}
				return !again
			}
			c := s.started(Options{StatefulReconnect: true})
			<-reached
			begin := time.Now()
			if err := c.Send(t.Context(), "X"); err != nil { // kept for the next socket
				t.Error(err)
			}
			if err := c.Stop(t.Context()); err != nil || time.Since(begin) != 0 {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
		})
	})
}
