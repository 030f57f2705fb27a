package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestWriteEvent(t *testing.T) {
	for payload, want := range map[string]string{
		"Hello, World":     "data: Hello, World\r\n\r\n",
		"Hello\nWorld":     "data: Hello\r\ndata: World\r\n\r\n",
		"Hello\r\nWorld":   "data: Hello\r\ndata: World\r\n\r\n",
		"Hello\n":          "data: Hello\r\ndata: \r\n\r\n",
		"":                 "\r\n",
		"a\x1eb\x1e":       "data: a\x1eb\x1e\r\n\r\n",
		"\n\n":             "data: \r\ndata: \r\ndata: \r\n\r\n",
		"\r\n":             "data: \r\ndata: \r\n\r\n",
		"{\"type\":6}\x1e": "data: {\"type\":6}\x1e\r\n\r\n",
	} {
		for _, multiplexed := range []bool{false, true} {
			var got bytes.Buffer
			if err := writeEvent(&got, []byte(payload), multiplexed); err != nil || got.String() != want {
				t.Errorf("%q: got %q, %v, want %q", payload, got.String(), err, want)
			}
		}
	}
}

// FuzzEventFraming reads back what is written, line ends being all the same.
func FuzzEventFraming(f *testing.F) {
	for _, s := range []string{"{}\x1e", "{\"type\":6}\x1e{\"type\":7}\x1e", "a\nb", "a\r\nb\n", "\n", strings.Repeat("x", 5000)} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, multiplexed bool) {
		if bytes.HasPrefix(payload, []byte("\r")) && len(payload) == 1 || bytes.Contains(payload, []byte("\r")) {
			payload = bytes.ReplaceAll(payload, []byte("\r"), nil) // a line end to browsers, and in no record
		}
		var wire bytes.Buffer
		if err := writeEvent(&wire, payload, multiplexed); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(&wire)
		got, err := readEvent(r)
		if err != nil || got != string(payload) {
			t.Errorf("got %q, %v, want %q", got, err, payload)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("%q is left", rest)
		}
	})
}

// TestEvents is the life of an event stream, over both versions of HTTP.
func TestEvents(t *testing.T) {
	for name, secure := range map[string]bool{"it speaks HTTP/1.1": false, "it speaks HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			serve, conns, result := sink()
			s := startWith(t, Options{}, serve, secure)
			c := s.restClient(t)
			o := c.stream(t, t.Context())
			h := o.resp.Header
			for key, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-cache,no-store", "Pragma": "no-cache",
				"Content-Encoding": "identity", "X-Accel-Buffering": "no",
			} {
				if got := h.Get(key); got != want {
					t.Errorf("%s: got %q", key, got)
				}
			}
			if want := 1 + btoi(secure); o.resp.ProtoMajor != want {
				t.Errorf("got HTTP/%d", o.resp.ProtoMajor)
			}
			conn := wait(t, conns)
			if conn.Kind() != ServerSentEvents || conn.Binary() || conn.ID() != c.id || conn.RemoteAddr() == "" {
				t.Errorf("got %v, %v, %q, %q", conn.Kind(), conn.Binary(), conn.ID(), conn.RemoteAddr())
			}
			large := strings.Repeat("large", 20_000)
			for _, batch := range [][]*Message{text("{}\x1e"), append(text("a\x1e"), NewProbe(), NewMessage([]byte("b\nc"), false)), text(large)} {
				if err := conn.Send(batch, soon()); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []string{"{}\x1e", "a\x1e", "b\nc", large} {
				if got := o.event(t); got != want {
					t.Errorf("got %.40q, want %.40q", got, want)
				}
			}
			if got := c.post(t, "hello"); !got.is(200, "text/plain", "") {
				t.Errorf("POST: got %+v", got)
			}
			until(t, func() bool { return conn.LastReceived() > 0 })
			if err := conn.SendClose(StatusNormal, soon()); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(o.r); len(rest) > 0 || err != nil {
				t.Errorf("got %q and %v, want the end of the response", rest, err)
			}
			if got := wait(t, result); string(got.data) != "hello" || got.err != io.EOF {
				t.Errorf("got %q and %v", got.data, got.err)
			}
			if err := conn.Send(text("late"), soon()); err == nil {
				t.Error("sent behind the end")
			}
			if err := s.endpoint.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := c.post(t, "x"); !got.is(404, "text/plain", textUnknownID) {
				t.Errorf("POST after the end: got %+v", got)
			}
			if resp := c.tryStream(t, t.Context()); resp.StatusCode != 404 {
				t.Errorf("stream after the end: got status %d", resp.StatusCode)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestEventsClientLeaves has a client drop its request.
func TestEventsClientLeaves(t *testing.T) {
	for _, secure := range []bool{false, true} {
		serve, conns, result := sink()
		s := startWith(t, Options{}, serve, secure)
		c := s.restClient(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.stream(t, ctx)
		wait(t, conns)
		cancel()
		if got := wait(t, result); !errors.Is(got.err, errLeft) {
			t.Errorf("got %v", got.err)
		}
	}
}

// TestEventsDrop has connections dropped: while idle, and while a client does
// not read, by CloseNow or by the deadline.
func TestEventsDrop(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for name, tt := range map[string]struct {
			budget time.Duration
			cut    bool
		}{
			"it drops an idle one":      {0, true},
			"it cuts a write":           {patience, true},
			"it bounds a write in time": {50 * time.Millisecond, false},
		} {
			t.Run(name, func(t *testing.T) {
				serve, conns, result := sink()
				s := startWith(t, Options{}, serve, secure)
				c := s.restClient(t)
				c.stream(t, t.Context())
				conn := wait(t, conns)
				sent := make(chan error, 1)
				if tt.budget > 0 {
					go func() { sent <- conn.Send(text(strings.Repeat("x", 32<<20)), time.Now().Add(tt.budget)) }()
				}
				if tt.cut && tt.budget > 0 {
					stream := conn.(*eventStream)
					until(t, func() bool { stream.mu.Lock(); defer stream.mu.Unlock(); return stream.writing })
				}
				if tt.cut {
					conn.CloseNow()
				}
				if got := wait(t, result); got.err == nil || got.err == io.EOF {
					t.Errorf("got %v", got.err)
				}
				if tt.budget > 0 {
					if err := wait(t, sent); err == nil {
						t.Error("nobody read it, yet it was sent")
					}
				}
				if err := s.endpoint.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := conn.Send(text("late"), soon()); err == nil {
					t.Error("sent behind the end")
				}
			})
		}
	}
}

func TestEventsSendPastDeadline(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	s.restClient(t).stream(t, t.Context())
	if err := wait(t, conns).Send(text("x"), time.Now().Add(-1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := wait(t, result); got.err == nil {
		t.Error("the connection goes on")
	}
}

// TestServerTimeouts has an HTTP server whose timeouts are shorter than a poll
// and an event stream.
func TestServerTimeouts(t *testing.T) {
	serve, conns, _ := sink()
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) { return serve, nil }})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hub", e)
	mux.Handle("/hub/negotiate", e)
	srv := httptest.NewUnstartedServer(mux)
	const timeout = 50 * time.Millisecond
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = timeout, timeout
	srv.Start()
	defer srv.Close()
	s := &testServer{endpoint: e, http: srv, addr: srv.Listener.Addr().String()}
	polling, events := s.restClient(t), s.restClient(t)
	polling.begin(t)
	p := wait(t, conns)
	got := polling.pollLater(t)
	o := events.stream(t, t.Context())
	v := wait(t, conns)
	<-time.After(4 * timeout) // for as long nothing happens
	for _, conn := range []Conn{p, v} {
		if err := conn.Send(text("x"), soon()); err != nil {
			t.Error(err)
		}
	}
	if got := wait(t, got); got.body != "x" {
		t.Errorf("poll: got %+v", got)
	}
	if got := o.event(t); got != "x" {
		t.Errorf("event stream: got %q", got)
	}
	p.CloseNow()
	v.CloseNow()
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNoFlusher has a middleware that keeps bytes back.
func TestNoFlusher(t *testing.T) {
	log := &lines{}
	e, err := New(Options{Open: noOpen, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	keys := e.opts.Keys.Keys()
	tok := token{until: time.Now().Add(time.Minute), id: newID(), owner: e.owner}
	tok.sign(&keys[0])
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hub?id="+tok.text, nil)
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	e.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	if w.Code != http.StatusInternalServerError || !log.contains("http.Flusher") {
		t.Errorf("got status %d, log %q", w.Code, log.all())
	}
	if rec := e.findRecord(&tok); rec != nil || e.opts.Claims.InUse(tok.connID()) {
		t.Error("something is left of it")
	}
}
