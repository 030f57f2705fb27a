package transport

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A resumableSide is the server's side of a connection whose socket may be
// replaced, and what its Receive has returned.
type resumableSide struct {
	ResumableConn
	events chan string
}

func (r *resumableSide) want(t *testing.T, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := wait(t, r.events); got != want {
			t.Fatalf("Receive: got %s, want %s", got, want)
		}
	}
}

// startResumable serves connections whose socket may be replaced, once the
// tests allow it.
func startResumable(t testing.TB, opts Options) (*testServer, <-chan *resumableSide) {
	t.Helper()
	sides := make(chan *resumableSide, 4)
	opts.AllowStatefulReconnects = true
	return start(t, opts, func(c Conn) {
		side := &resumableSide{events: make(chan string, 100)}
		side.ResumableConn, _ = c.(ResumableConn)
		sides <- side
		for {
			piece, err := c.Receive()
			switch {
			case err == nil:
				side.events <- "data " + string(piece)
			case errors.Is(err, ErrDetached):
				side.events <- "detached"
			case errors.Is(err, ErrResumed):
				side.events <- "resumed"
			case err == io.EOF:
				side.events <- "EOF"
				return
			default:
				side.events <- "over"
				return
			}
		}
	}), sides
}

// openResumable opens a connection and returns its token and both sides.
func openResumable(t testing.TB, s *testServer, sides <-chan *resumableSide) (string, *rawConn, *resumableSide) {
	t.Helper()
	n := s.negotiate(t, "?negotiateVersion=1&useStatefulReconnect=true")
	c := s.open(t, "?id="+n.ConnectionToken)
	side := wait(t, sides)
	if side.ResumableConn == nil {
		t.Fatal("the connection is not resumable")
	}
	return n.ConnectionToken, c, side
}

func wantStatus(t *testing.T, s *testServer, token string, code int) {
	t.Helper()
	if _, resp := s.tryOpen(t, "?id="+token); resp.StatusCode != code {
		t.Errorf("another socket got status %d, want %d", resp.StatusCode, code)
	}
}

func TestResume(t *testing.T) {
	s, sides := startResumable(t, Options{})
	token, c, side := openResumable(t, s, sides)
	wantStatus(t, s, token, 409)
	side.AllowResume(true)
	c.writeFrame(t, 0x81, []byte("one"))
	side.want(t, "data one")
	for range 3 { // the socket is cut, in the middle of a message
		c.writeFrame(t, 0x01, []byte("half"))
		side.want(t, "data half")
		c.Close()
		side.want(t, "detached")
		if err := side.Send(text("x"), soon()); !errors.Is(err, ErrDetached) {
			t.Errorf("Send without a socket: got %v", err)
		}
		c = s.open(t, "?id="+token)
		side.want(t, "resumed")
		if err := side.Send(text("x"), soon()); !errors.Is(err, ErrDetached) {
			t.Errorf("Send before Resume: got %v", err)
		}
		side.Resume()
		if err := side.Send(text("hello"), soon()); err != nil {
			t.Fatal(err)
		}
		if got := c.readFrame(t); string(got.payload) != "hello" {
			t.Errorf("got %q", got.payload)
		}
		c.writeFrame(t, 0x81, []byte("again"))
		side.want(t, "data again")
		if side.LastReceived() > side.Age() || side.RemoteAddr() != c.LocalAddr().String() {
			t.Errorf("last byte after %v of %v, from %s", side.LastReceived(), side.Age(), side.RemoteAddr())
		}
	}
	c.writeFrame(t, 0x88, nil)
	side.want(t, "EOF")
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, token, 404)
	if got := s.endpoint.Stats(); got.Accepted != 1 || got.Open != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestResumeHalfOpen has a new socket while the old one seems alive, and
// another one before the first was noticed.
func TestResumeHalfOpen(t *testing.T) {
	s, sides := startResumable(t, Options{})
	token, old, side := openResumable(t, s, sides)
	side.AllowResume(true)
	c := s.open(t, "?id="+token)
	side.want(t, "detached", "resumed")
	old.wantEOF(t, patience)
	side.Resume()
	if err := side.Send(text("hello"), soon()); err != nil {
		t.Fatal(err)
	}
	if got := c.readFrame(t); string(got.payload) != "hello" {
		t.Errorf("got %q", got.payload)
	}
	c.writeFrame(t, 0x88, nil)
	side.want(t, "EOF")
}

// TestResumeFreesSend has a Send that blocks on a socket that is replaced.
func TestResumeFreesSend(t *testing.T) {
	s, sides := startResumable(t, Options{})
	token, _, side := openResumable(t, s, sides)
	side.AllowResume(true)
	sent := make(chan error, 1)
	go func() { sent <- side.Send(text(strings.Repeat("x", 32<<20)), soon()) }()
	s.open(t, "?id="+token)
	if err := wait(t, sent); !errors.Is(err, ErrDetached) {
		t.Errorf("got %v", err)
	}
	side.want(t, "detached", "resumed")
	side.CloseNow()
	side.want(t, "over")
}

// TestResumeAfterWriteError has a client that does not read: the write takes
// too long, which loses the socket and not the connection.
func TestResumeAfterWriteError(t *testing.T) {
	s, sides := startResumable(t, Options{})
	token, _, side := openResumable(t, s, sides)
	side.AllowResume(true)
	if err := side.Send(text(strings.Repeat("x", 32<<20)), time.Now().Add(50*time.Millisecond)); !errors.Is(err, ErrDetached) {
		t.Errorf("got %v", err)
	}
	side.want(t, "detached")
	s.open(t, "?id="+token)
	side.want(t, "resumed")
	side.CloseNow()
	side.want(t, "over")
}

// TestResumeEnds has everything behind which no socket is let in.
func TestResumeEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, c *rawConn, side *resumableSide)
		last []string
		code int // while serve still runs
	}{
		{"it ends with the client's close frame", func(t *testing.T, c *rawConn, side *resumableSide) {
			c.writeFrame(t, 0x88, nil)
		}, []string{"EOF"}, 404},
		{"it ends when nothing comes in time", func(t *testing.T, c *rawConn, side *resumableSide) {
			c.Close()
		}, []string{"detached", "over"}, 404},
		{"it ends by CloseNow while detached", func(t *testing.T, c *rawConn, side *resumableSide) {
			c.Close()
			side.want(t, "detached")
			side.CloseNow()
		}, []string{"over"}, 404},
		{"it ends when it is switched off while detached", func(t *testing.T, c *rawConn, side *resumableSide) {
			c.Close()
			side.want(t, "detached")
			side.AllowResume(false)
		}, []string{"over"}, 404},
		{"it ends by SendClose while detached", func(t *testing.T, c *rawConn, side *resumableSide) {
			c.Close()
			side.want(t, "detached")
			if err := side.SendClose(StatusNormal, soon()); err != nil {
				t.Error(err)
			}
		}, []string{"over"}, 404},
		{"it ends with the socket when it was never allowed", func(t *testing.T, c *rawConn, side *resumableSide) {
			side.AllowResume(false)
			c.Close()
		}, []string{"over"}, 404},
		{"it ends by CloseNow", func(t *testing.T, c *rawConn, side *resumableSide) {
			side.CloseNow()
		}, []string{"over"}, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, sides := startResumable(t, Options{DisconnectTimeout: 200 * time.Millisecond})
			token, c, side := openResumable(t, s, sides)
			side.AllowResume(true)
			tt.do(t, c, side)
			side.want(t, tt.last...)
			if err := s.endpoint.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, s, token, tt.code)
			if err := side.Send(text("late"), soon()); err == nil || errors.Is(err, ErrDetached) {
				t.Errorf("Send after the end: got %v", err)
			}
		})
	}
}

// TestResumeAfterSendClose has a client that opens another socket instead of
// answering the close frame, as JavaScript does after every end.
func TestResumeAfterSendClose(t *testing.T) {
	s, sides := startResumable(t, Options{})
	token, c, side := openResumable(t, s, sides)
	side.AllowResume(true)
	if err := side.SendClose(StatusNormal, soon()); err != nil {
		t.Fatal(err)
	}
	c.wantClose(t, StatusNormal)
	wantStatus(t, s, token, 409)
	if err := side.Send(text("late"), soon()); !errors.Is(err, ErrClosing) {
		t.Errorf("got %v", err)
	}
	c.Close()
	side.want(t, "over")
}

// TestResumeStatuses covers other requests for such a connection.
func TestResumeStatuses(t *testing.T) {
	refuse := false
	s, sides := startResumable(t, Options{Refreshed: func(*http.Request, string) error {
		if refuse {
			return &StatusError{Code: 403}
		}
		return nil
	}})
	token, _, side := openResumable(t, s, sides)
	side.AllowResume(true)
	c := &restClient{s: s, token: token}
	if got := c.poll(t); got.code != 400 || got.body != textOtherWay {
		t.Errorf("poll: got %+v", got)
	}
	if got := c.post(t, "x"); got.code != 405 || got.body != textNoPost {
		t.Errorf("POST: got %+v", got)
	}
	if got := c.delete(t); got.code != 400 || got.body != textNoDelete {
		t.Errorf("DELETE: got %+v", got)
	}
	refuse = true
	wantStatus(t, s, token, 403)
	refuse = false
	s.endpoint.Refuse(&StatusError{Code: 503}) // draining: what is open may go on
	s.open(t, "?id="+token)
	side.want(t, "detached", "resumed")
}

// TestPostBeforeSocket has a client that POSTs and then opens a WebSocket.
func TestPostBeforeSocket(t *testing.T) {
	for _, query := range []string{"?negotiateVersion=1", "?negotiateVersion=1&useStatefulReconnect=true"} {
		serve, result := collect()
		s := start(t, Options{AllowStatefulReconnects: true}, serve)
		token := s.negotiate(t, query).ConnectionToken
		r := &restClient{s: s, token: token}
		if got := r.post(t, "hand"); got.code != 200 {
			t.Fatalf("got %+v", got)
		}
		c := s.open(t, "?id="+token)
		c.writeFrame(t, 0x81, []byte("shake"))
		if got := r.post(t, "x"); got.code != 405 {
			t.Errorf("got %+v", got)
		}
		wantStatus(t, s, token, 409)
		c.writeFrame(t, 0x88, nil)
		if got := wait(t, result); string(got.data) != "handshake" || got.err != io.EOF {
			t.Errorf("got %q and %v", got.data, got.err)
		}
	}
}

// TestPlainAmongResumable has clients that did not ask.
func TestPlainAmongResumable(t *testing.T) {
	s, sides := startResumable(t, Options{})
	s.open(t, "?id="+s.negotiate(t, "?negotiateVersion=1").ConnectionToken)
	s.open(t, "")
	for range 2 {
		if side := wait(t, sides); side.ResumableConn != nil {
			t.Error("the connection is resumable")
		}
	}
}
