package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func wantPollHeaders(t *testing.T, a answer) {
	t.Helper()
	h := a.header
	if h.Get("Cache-Control") != "no-cache, no-store" || h.Get("Pragma") != "no-cache" || h.Get("Expires") != "Thu, 01 Jan 1970 00:00:00 GMT" {
		t.Errorf("a poll's answer may be cached: %v", h)
	}
}

// TestPolling is the life of a connection that ends by the client's wish.
func TestPolling(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	first := c.poll(t)
	if !first.is(200, "application/octet-stream", "") || first.header.Get("Content-Length") != "0" {
		t.Fatalf("first poll: got %+v", first)
	}
	wantPollHeaders(t, first)
	conn := wait(t, conns)
	if conn.Kind() != LongPolling || !conn.Binary() || conn.ID() != c.id || conn.RemoteAddr() == "" {
		t.Errorf("got %v, %v, %q, %q", conn.Kind(), conn.Binary(), conn.ID(), conn.RemoteAddr())
	}
	poll := c.pollLater(t)
	if got := c.post(t, "hello"); !got.is(200, "text/plain", "") {
		t.Errorf("POST: got %+v", got)
	}
	batch := append(text("one\x1e"), NewProbe(), NewMessage([]byte("two\x1e"), true))
	if err := conn.Send(batch, soon()); err != nil {
		t.Fatal(err)
	}
	got := wait(t, poll)
	if !got.is(200, "application/octet-stream", "one\x1etwo\x1e") {
		t.Errorf("got %+v", got)
	}
	wantPollHeaders(t, got)
	if conn.LastReceived() <= 0 || conn.LastReceived() > conn.Age() {
		t.Errorf("last byte after %v, of %v", conn.LastReceived(), conn.Age())
	}
	poll = c.pollLater(t)
	if got := c.delete(t); !got.is(202, "text/plain", "") {
		t.Errorf("DELETE: got %+v", got)
	}
	got = wait(t, poll)
	if got.code != 204 || got.body != "" {
		t.Errorf("open poll: got %+v", got)
	}
	wantPollHeaders(t, got)
	if got := wait(t, result); string(got.data) != "hello" || got.err != io.EOF {
		t.Errorf("got %q and %v", got.data, got.err)
	}
	for what, got := range map[string]answer{"poll": c.poll(t), "POST": c.post(t, "x"), "DELETE": c.delete(t)} {
		if !got.is(404, "text/plain", textUnknownID) {
			t.Errorf("%s after the end: got %+v", what, got)
		}
	}
	if err := conn.Send(text("late"), soon()); !errors.Is(err, ErrClosing) {
		t.Errorf("Send after the end: got %v", err)
	}
}

// TestPollAfterDelete has a client that learns the end from its next poll.
func TestPollAfterDelete(t *testing.T) {
	serve, _, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	if got := c.delete(t); got.code != 202 {
		t.Fatalf("got %+v", got)
	}
	wait(t, result)
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.post(t, "x"); got.code != 404 {
		t.Errorf("POST: got %+v", got)
	}
	if got := c.delete(t); got.code != 404 {
		t.Errorf("second DELETE: got %+v", got)
	}
	if got := c.poll(t); got.code != 204 {
		t.Errorf("first poll afterwards: got %+v", got)
	}
	if got := c.poll(t); got.code != 404 {
		t.Errorf("second poll afterwards: got %+v", got)
	}
	if rec := c.record(t); rec != nil {
		t.Error("the record is still there")
	}
}

// TestPoliteEnd has the server end the connection: the rest with 200, then 204.
func TestPoliteEnd(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	sent := make(chan error, 1)
	go func() {
		err := conn.Send(text("bye\x1e"), soon())
		if err == nil {
			err = conn.SendClose(StatusNormal, soon())
		}
		sent <- err
	}()
	if got := c.poll(t); !got.is(200, "application/octet-stream", "bye\x1e") {
		t.Errorf("got %+v", got)
	}
	if err := wait(t, sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(text("late"), soon()); !errors.Is(err, ErrClosing) {
		t.Errorf("Send behind the end: got %v", err)
	}
	if got := c.poll(t); got.code != 204 {
		t.Errorf("got %+v", got)
	}
	if got := wait(t, result); got.err != io.EOF {
		t.Errorf("got %v", got.err)
	}
	if got := c.poll(t); !got.is(404, "text/plain", textUnknownID) {
		t.Errorf("got %+v", got)
	}
}

// TestPollAfterCloseNow has a connection dropped between two polls.
func TestPollAfterCloseNow(t *testing.T) {
	for name, opts := range map[string]Options{
		"it answers 204 once": {},
		"it forgets in time":  {DisconnectTimeout: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			serve, conns, result := sink()
			s := start(t, opts, serve)
			c := s.restClient(t)
			c.begin(t)
			wait(t, conns).CloseNow()
			if got := wait(t, result); got.err == nil || got.err == io.EOF {
				t.Errorf("got %v", got.err)
			}
			if opts.DisconnectTimeout == 0 {
				if got := c.poll(t); got.code != 204 {
					t.Errorf("got %+v", got)
				}
			}
			until(t, func() bool { return c.record(t) == nil })
			if got := c.poll(t); got.code != 404 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPollTimeout(t *testing.T) {
	serve, conns, _ := sink()
	s := start(t, Options{PollTimeout: 20 * time.Millisecond}, serve)
	c := s.restClient(t)
	c.begin(t)
	for range 3 {
		got := c.poll(t)
		if !got.is(200, "text/plain", "") || got.header.Get("Content-Length") != "0" {
			t.Errorf("got %+v", got)
		}
		wantPollHeaders(t, got)
	}
	wait(t, conns).CloseNow()
}

// TestPollReplaced has a second poll while one is open, and two at once while
// one is being answered.
func TestPollReplaced(t *testing.T) {
	serve, conns, _ := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	old := c.pollLater(t)
	newer := c.pollLater(t)
	if got := wait(t, old); got.code != 204 {
		t.Errorf("replaced poll: got %+v", got)
	}
	p := c.record(t).poll
	me := &poll{control: http.NewResponseController(nil), wake: make(chan struct{}, 1), left: make(chan struct{})}
	p.mu.Lock()
	p.newcomer = true // one that waits for its place
	p.mu.Unlock()
	if got := c.poll(t); !got.is(409, "", "") {
		t.Errorf("third poll: got %+v", got)
	}
	if p.enter(t.Context(), me) {
		t.Error("a third poll found a place")
	}
	p.mu.Lock()
	p.newcomer = false
	p.mu.Unlock()
	if err := conn.Send(text("x"), soon()); err != nil {
		t.Error(err)
	}
	if got := wait(t, newer); !got.is(200, "application/octet-stream", "x") {
		t.Errorf("newer poll: got %+v", got)
	}
}

// TestPollGap has a client that polls no more.
func TestPollGap(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{DisconnectTimeout: 50 * time.Millisecond}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	if err := conn.Send(text("to nobody"), soon()); err == nil {
		t.Error("nobody took the message")
	}
	if got := wait(t, result); !errors.Is(got.err, errNoPoll) {
		t.Errorf("got %v", got.err)
	}
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.poll(t); !got.is(404, "text/plain", textUnknownID) {
		t.Errorf("poll that is too late: got %+v", got)
	}
}

// TestPollLeaves has a poll whose client goes away before there is data: the
// next poll gets it.
func TestPollLeaves(t *testing.T) {
	serve, conns, _ := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	ctx, cancel := context.WithCancel(t.Context())
	gone := later(func() answer { return s.exchange(ctx, http.MethodGet, "?id="+c.token, nil) })
	until(t, func() bool { return c.holder(t) != nil })
	cancel()
	wait(t, gone)
	until(t, func() bool { return c.holder(t) == nil })
	next := c.pollLater(t)
	if err := conn.Send(text("x"), soon()); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, next); got.body != "x" {
		t.Errorf("got %+v", got)
	}
}

// TestPollDeadline has a Send that waits longer for its poll than a write may
// take, and one whose deadline has passed before it.
func TestPollDeadline(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	const budget = 50 * time.Millisecond
	sent := make(chan error, 1)
	go func() { sent <- conn.Send(text("x"), time.Now().Add(budget)) }()
	select {
	case err := <-sent:
		t.Fatalf("Send did not wait: %v", err)
	case <-time.After(2 * budget):
	}
	if got := c.poll(t); got.body != "x" {
		t.Errorf("got %+v", got)
	}
	if err := wait(t, sent); err != nil {
		t.Error(err)
	}
	if err := conn.Send(text("x"), time.Now().Add(-1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := wait(t, result); got.err == nil {
		t.Error("the connection goes on")
	}
}

// TestPollSlow has a client that does not read its poll's answer: the write is
// cut by its deadline, or by CloseNow.
func TestPollSlow(t *testing.T) {
	for name, cut := range map[string]bool{"it is cut by the deadline": false, "it is cut by CloseNow": true} {
		t.Run(name, func(t *testing.T) {
			serve, conns, result := sink()
			s := start(t, Options{}, serve)
			c := s.restClient(t)
			c.begin(t)
			conn := wait(t, conns)
			raw := s.dial(t)
			io.WriteString(raw, "GET /hub?id="+c.token+" HTTP/1.1\r\nHost: x\r\n\r\n")
			until(t, func() bool { return c.holder(t) != nil })
			deadline := soon()
			if !cut {
				deadline = time.Now().Add(50 * time.Millisecond)
			}
			sent := make(chan error, 1)
			go func() { sent <- conn.Send(text(strings.Repeat("x", 32<<20)), deadline) }()
			if cut {
				until(t, func() bool {
					p := c.record(t).poll
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.holder != nil && p.holder.writing
				})
				conn.CloseNow()
			}
			if err := wait(t, sent); err == nil {
				t.Error("nobody read it, yet it was sent")
			}
			if got := wait(t, result); got.err == nil || got.err == io.EOF {
				t.Errorf("got %v", got.err)
			}
		})
	}
}

// TestPollOrder sends many batches while a client polls.
func TestPollOrder(t *testing.T) {
	const batches = 200
	serve, conns, _ := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	var want bytes.Buffer
	var all [][]*Message
	for i := range batches {
		record := bytes.Repeat([]byte{byte('a' + i%26)}, 1+37*i)
		want.Write(record)
		all = append(all, []*Message{NewMessage(record[:len(record)/2], true), NewMessage(record[len(record)/2:], true)})
	}
	sent := make(chan error, 1)
	go func() {
		for _, batch := range all {
			if err := conn.Send(batch, soon()); err != nil {
				sent <- err
				return
			}
		}
		sent <- conn.SendClose(StatusNormal, soon())
	}()
	var got bytes.Buffer
	for {
		a := c.poll(t)
		if a.code != 200 {
			break
		}
		got.WriteString(a.body)
	}
	if err := wait(t, sent); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("got %d bytes, want %d", got.Len(), want.Len())
	}
}

// TestPollHTTP2 polls over HTTP/2.
func TestPollHTTP2(t *testing.T) {
	e := startHTTP2(t)
	c := e.restClient(t)
	c.begin(t)
	record := strings.Repeat("x", 10_000)
	for range 3 {
		if got := c.post(t, record); got.code != 200 {
			t.Fatalf("got %+v", got)
		}
		for n := 0; n < len(record); {
			got := c.poll(t)
			if got.code != 200 || got.kind != "application/octet-stream" {
				t.Fatalf("got %+v", got)
			}
			n += len(got.body)
		}
	}
	if got := c.delete(t); got.code != 202 {
		t.Errorf("got %+v", got)
	}
}

// startHTTP2 serves an echo whose clients speak HTTP/2.
func startHTTP2(t testing.TB) *testServer {
	t.Helper()
	return startWith(t, Options{}, echo, true)
}
