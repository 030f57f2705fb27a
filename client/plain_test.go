package client

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A plainConn is one connection of a testServer without WebSockets, as
// TransportProtocols.md has it. It complains about clients that do not keep to
// that.
type plainConn struct {
	server    *testServer
	transport string        // set by the first GET
	gone      chan struct{} // closed when the client has left
	once      sync.Once

	// Guarded by mu.
	mu      sync.Mutex
	in, out [][]byte
	wake    chan struct{} // closed and replaced when any of this changes
	ended   bool          // by the server
	polling bool          // a GET is open
	posting bool          // a POST is open
}

// pollTimeout of the server.
const pollTimeout = 90 * time.Second

func (c *plainConn) leave() { c.once.Do(func() { close(c.gone) }) }

// change runs f under the lock and wakes all.
func (c *plainConn) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.wake)
	c.wake = make(chan struct{})
}

func (c *plainConn) send(b []byte) {
	c.change(func() { c.out = append(c.out, append([]byte{}, b...)) })
}

// receive returns what one POST brought.
func (c *plainConn) receive() ([]byte, error) {
	for {
		c.mu.Lock()
		wake := c.wake
		if len(c.in) > 0 {
			b := c.in[0]
			c.in = c.in[1:]
			c.mu.Unlock()
			return b, nil
		}
		c.mu.Unlock()
		select {
		case <-wake:
		case <-c.gone:
			return nil, io.EOF
		}
	}
}

// servePlain answers one request.
func (s *testServer) servePlain(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("id")
	s.mu.Lock()
	c, known := s.plain[token]
	if !known && r.Method == http.MethodGet && strings.HasPrefix(token, "t") && !s.used[token] {
		c = &plainConn{server: s, gone: make(chan struct{}), wake: make(chan struct{})}
		s.plain[token], s.used[token] = c, true
	}
	s.mu.Unlock()
	switch {
	case c == nil:
		http.Error(w, "No Connection with that ID", http.StatusNotFound)
	case r.Method == http.MethodPost:
		c.post(w, r)
	case r.Method == http.MethodDelete:
		if c.transport != "LongPolling" {
			s.t.Errorf("DELETE on %s", c.transport)
		}
		s.forget(token)
		c.leave()
		w.WriteHeader(http.StatusAccepted)
	case r.Header.Get("Accept") == "text/event-stream":
		if !known {
			c.begin("ServerSentEvents")
		}
		c.events(w, r)
		s.forget(token)
	case !known:
		c.begin("LongPolling") // the first poll is answered at once
		w.Header().Set("Content-Length", "0")
	default:
		c.poll(w, r)
	}
}

func (s *testServer) forget(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.plain, token)
}

// begin runs a script.
func (c *plainConn) begin(transport string) {
	c.transport = transport
	c.server.serving.Go(func() {
		c.server.run(&peer{t: c.server.t, plain: c})
		c.change(func() { c.ended = true })
	})
}

func (c *plainConn) post(w http.ResponseWriter, r *http.Request) {
	c.change(func() {
		if c.posting {
			c.server.t.Error("two POSTs at once")
		}
		c.posting = true
	})
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	c.change(func() {
		c.posting = false
		c.in = append(c.in, body)
	})
}

// next waits for something to send. It returns false at the end.
func (c *plainConn) next(r *http.Request, timeout <-chan time.Time) (chunks [][]byte, ok bool) {
	for {
		c.mu.Lock()
		wake, ended := c.wake, c.ended
		chunks, c.out = c.out, nil
		c.mu.Unlock()
		switch {
		case len(chunks) > 0:
			return chunks, true
		case ended:
			return nil, false
		}
		select {
		case <-wake:
		case <-timeout:
			return nil, true
		case <-c.gone:
			return nil, false
		case <-r.Context().Done():
			return nil, false
		}
	}
}

func (c *plainConn) poll(w http.ResponseWriter, r *http.Request) {
	c.change(func() {
		if c.polling {
			c.server.t.Error("two polls at once")
		}
		c.polling = true
	})
	defer c.change(func() { c.polling = false })
	timeout := time.NewTimer(pollTimeout)
	defer timeout.Stop()
	chunks, ok := c.next(r, timeout.C)
	if r.Context().Err() != nil {
		return // the client gave up this poll
	}
	if !ok {
		c.server.forget(r.URL.Query().Get("id"))
		c.leave()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(bytes.Join(chunks, nil))
}

func (c *plainConn) events(w http.ResponseWriter, r *http.Request) {
	defer c.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ":\r\n")
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for {
		chunks, ok := c.next(r, nil)
		if !ok {
			return
		}
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, "data: "+string(chunk)+"\r\n\r\n")
		}
		_ = flush()
	}
}
