package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// sendTimeout bounds one write to a raw client.
const sendTimeout = 10 * time.Second

// A rawEcho is an endpoint without a hub protocol that sends back what it gets.
type rawEcho struct {
	endpoint *transport.Endpoint

	mu   sync.Mutex
	open map[*rawConn]struct{} // guarded by mu; nil once closed
}

// A rawConn is one connection of a rawEcho.
type rawConn struct {
	transport.Conn
	sending sync.Mutex // held while something is written
}

func newRawEcho(log *slog.Logger) (*rawEcho, error) {
	e := &rawEcho{open: map[*rawConn]struct{}{}}
	var err error
	e.endpoint, err = transport.New(transport.Options{
		Open:           func(*http.Request, transport.Info) (func(transport.Conn), error) { return e.serve, nil },
		AllowedOrigins: []string{"*"},
		Logger:         log,
	})
	return e, err
}

// serve echoes until the client or the host ends the connection.
func (e *rawEcho) serve(conn transport.Conn) {
	c := &rawConn{Conn: conn}
	if !e.enter(c) {
		return
	}
	defer e.leave(c)
	var text []byte // what has come and was not sent back
	for {
		piece, err := c.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = c.close(transport.StatusNormal) // the client may have gone
			}
			return
		}
		text = append(text, piece...)
		n := wholeCharacters(text)
		if n == 0 {
			continue
		}
		if err := c.send(text[:n]); err != nil {
			return
		}
		text = append([]byte(nil), text[n:]...)
	}
}

func (c *rawConn) send(text []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.Send([]*transport.Message{transport.NewMessage(text, false)}, time.Now().Add(sendTimeout))
}

func (c *rawConn) close(status int) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.SendClose(status, time.Now().Add(time.Second))
}

// wholeCharacters is how many bytes of b may be sent as text: all but the
// beginning of a UTF-8 character whose rest has not come yet.
func wholeCharacters(b []byte) int {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// enter counts a connection, unless the host has begun to end.
func (e *rawEcho) enter(c *rawConn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		return false
	}
	e.open[c] = struct{}{}
	return true
}

func (e *rawEcho) leave(c *rawConn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, c)
}

// shut refuses new connections and returns those that were open.
func (e *rawEcho) shut() []*rawConn {
	e.endpoint.Refuse(&transport.StatusError{Code: http.StatusServiceUnavailable})
	e.mu.Lock()
	defer e.mu.Unlock()
	conns := make([]*rawConn, 0, len(e.open))
	for c := range e.open {
		conns = append(conns, c)
	}
	e.open = nil
	return slices.Clip(conns)
}
