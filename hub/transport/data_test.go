package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestPostBeforeAttach has bytes that are there before the connection.
func TestPostBeforeAttach(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	for _, body := range []string{"hand", "shake", ""} {
		if got := c.post(t, body); !got.is(200, "text/plain", "") {
			t.Fatalf("got %+v", got)
		}
	}
	if got := c.delete(t); !got.is(400, "text/plain", textNoDelete) {
		t.Errorf("DELETE: got %+v", got)
	}
	c.begin(t)
	wait(t, conns)
	c.delete(t)
	if got := wait(t, result); string(got.data) != "handshake" || got.err != io.EOF {
		t.Errorf("got %q and %v", got.data, got.err)
	}
}

// TestPostBeforeAttachIsBounded has clients that only ever POST.
func TestPostBeforeAttachIsBounded(t *testing.T) {
	s := startEcho(t, Options{MaxPending: 2})
	a, b, c := s.restClient(t), s.restClient(t), s.restClient(t)
	if got := a.post(t, strings.Repeat("x", maxBody)); got.code != 200 {
		t.Fatalf("got %d", got.code)
	}
	if got := a.post(t, "x"); got.code != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("one byte too many: got %+v", got)
	}
	if got := b.post(t, strings.Repeat("x", maxBody+1)); got.code != 503 {
		t.Errorf("one byte too many in one body: got %+v", got)
	}
	if got := c.post(t, "x"); got.code != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("one connection too many: got %+v", got)
	}
	c.begin(t) // but a poll is let in
	a.begin(t)
	if got := s.restClient(t).post(t, "x"); got.code != 200 {
		t.Errorf("got %+v with room for one more", got)
	}
}

// TestPostBeforeAttachIsBoundedTogether has many clients that each POST as much
// as they may.
func TestPostBeforeAttachIsBoundedTogether(t *testing.T) {
	e, err := New(Options{Open: noOpen})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("x", maxBody)
	post := func(tok *token) int {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hub?id="+tok.text, strings.NewReader(body)))
		return w.Code
	}
	fresh := func() *token {
		tok := &token{until: time.Now().Add(time.Minute), id: newID(), owner: e.owner}
		tok.sign(&e.opts.Keys.Keys()[0])
		return tok
	}
	var tokens []*token
	for range maxPendingBytes / maxBody {
		tokens = append(tokens, fresh())
		if code := post(tokens[len(tokens)-1]); code != 200 {
			t.Fatalf("got status %d", code)
		}
	}
	if code := post(fresh()); code != 503 {
		t.Errorf("one too many: got status %d", code)
	}
	e.findRecord(tokens[0]).expire()
	if code := post(fresh()); code != 200 {
		t.Errorf("when one has expired: got status %d", code)
	}
	for _, rec := range e.records.byToken {
		defer rec.expire()
	}
}

// TestPostBeforeAttachExpires has a client that never comes back.
func TestPostBeforeAttachExpires(t *testing.T) {
	s := startEcho(t, Options{MaxPending: 1, DisconnectTimeout: 20 * time.Millisecond})
	for range 3 {
		c := s.restClient(t)
		if got := c.post(t, "x"); got.code != 200 {
			t.Fatalf("got %+v", got)
		}
		until(t, func() bool { return c.record(t) == nil })
		until(t, func() bool { return !s.endpoint.opts.Claims.InUse(c.id) })
	}
}

// TestAttachRefused has Open refuse a connection that a POST began: the bytes
// wait for the next attempt.
func TestAttachRefused(t *testing.T) {
	refusal := error(&StatusError{Code: 429})
	serve, _, result := sink()
	s := start(t, Options{Open: func(*http.Request, Info) (func(Conn), error) { return serve, refusal }}, nil)
	c := s.restClient(t)
	c.post(t, "hello")
	if got := c.poll(t); got.code != 429 {
		t.Fatalf("got %+v", got)
	}
	s.endpoint.Refuse(&StatusError{Code: 503})
	if got := c.poll(t); got.code != 503 {
		t.Errorf("got %+v", got)
	}
	s.endpoint.Refuse(nil)
	refusal = nil
	c.begin(t)
	c.delete(t)
	if got := wait(t, result); string(got.data) != "hello" {
		t.Errorf("got %q", got.data)
	}
	d := s.restClient(t) // without a POST nothing is left of a refused one
	refusal = errors.New("a secret")
	if got := d.poll(t); got.code != 500 || d.record(t) != nil {
		t.Errorf("got %+v", got)
	}
}

// TestPostsInParallel has more POSTs than Receive takes at once: each arrives
// whole, and they wait while nobody receives.
func TestPostsInParallel(t *testing.T) {
	const posts = 20
	conns, read := make(chan Conn, 1), make(chan struct{})
	result := make(chan ended, 1)
	s := start(t, Options{}, func(c Conn) {
		conns <- c
		<-read
		serve, r := collect()
		serve(c)
		result <- <-r
	})
	c := s.restClient(t)
	c.begin(t)
	wait(t, conns)
	var answers []<-chan answer
	for i := range posts {
		body := bytes.Repeat([]byte{byte('a' + i)}, 30_000)
		answers = append(answers, later(func() answer { return c.post(t, string(body)) }))
	}
	done := 0
	for done < 2 { // as many as there is room for
		for _, a := range answers {
			select {
			case got := <-a:
				if got.code != 200 {
					t.Fatalf("got %+v", got)
				}
				done++
			default:
			}
		}
	}
	if size := len(c.record(t).inbox.snapshot()); size > maxBody {
		t.Errorf("%d bytes wait", size)
	}
	close(read)
	for done < posts {
		for _, a := range answers {
			select {
			case got := <-a:
				if got.code != 200 {
					t.Fatalf("got %+v", got)
				}
				done++
			default:
			}
		}
	}
	c.delete(t)
	got := wait(t, result)
	if len(got.data) != posts*30_000 {
		t.Fatalf("got %d bytes", len(got.data))
	}
	for i := 0; i < len(got.data); i += 30_000 {
		if piece := got.data[i : i+30_000]; len(bytes.Trim(piece, string(piece[:1]))) != 0 {
			t.Fatal("two bodies are mixed")
		}
	}
}

func (b *inbox) snapshot() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unread
}

// TestPostSizes has bodies around every buffer's size, announced or not.
func TestPostSizes(t *testing.T) {
	serve, _, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	var want []byte
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, pieceSize, pieceSize + 1, maxBody - 1, maxBody, maxBody + 1, maxBody + 2, maxBody + streamRead, maxBody + streamRead + 1, 1 << 20} {
		for _, announced := range []bool{true, false} {
			content := bytes.Repeat([]byte{byte('a' + len(want)%26)}, size)
			want = append(want, content...)
			var r io.Reader = bytes.NewReader(content)
			if !announced {
				r = io.MultiReader(r)
			}
			if got := s.exchange(t.Context(), http.MethodPost, "?id="+c.token, r); got.code != 200 {
				t.Fatalf("%d bytes: got %+v", size, got)
			}
		}
	}
	c.delete(t)
	if got := wait(t, result); !bytes.Equal(got.data, want) {
		t.Errorf("got %d bytes, want %d", len(got.data), len(want))
	}
}

// TestPostAborted has clients that abort their body: a small one leaves
// nothing, a large one ends the connection.
func TestPostAborted(t *testing.T) {
	serve, _, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	abort := func(size int) *http.Response {
		conn := s.dial(t)
		r := newReader(conn)
		io.WriteString(conn, "POST /hub?id="+c.token+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n"+strings.Repeat("x", size))
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, size := range []int{0, 1, 1000, maxBody} {
		if resp := abort(size); resp.StatusCode != 400 || body(t, resp) != "" {
			t.Errorf("%d bytes: got status %d", size, resp.StatusCode)
		}
	}
	if got := c.post(t, "still there"); got.code != 200 {
		t.Errorf("got %+v", got)
	}
	if resp := abort(2 * maxBody); resp.StatusCode != 400 {
		t.Errorf("got status %d", resp.StatusCode)
	}
	got := wait(t, result)
	if !errors.Is(got.err, errAborted) || !strings.HasPrefix(string(got.data), "still therexx") {
		t.Errorf("got %.20q… and %v", got.data, got.err)
	}
	if n := s.endpoint.Stats().Refused[RefusedBody]; n != 5 {
		t.Errorf("counted %d aborted bodies", n)
	}
}

// TestPostDoesNotOutlive has a connection end while one POST trickles in and
// another waits for its turn.
func TestPostDoesNotOutlive(t *testing.T) {
	serve, conns, result := sink()
	s := start(t, Options{}, serve)
	c := s.restClient(t)
	c.begin(t)
	conn := wait(t, conns)
	slow := s.dial(t)
	io.WriteString(slow, "POST /hub?id="+c.token+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
	until(t, func() bool { return len(c.record(t).inbox.turn) == 1 })
	second := later(func() answer { return c.post(t, "second") })
	conn.CloseNow()
	wait(t, result)
	if err := s.endpoint.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, second); got.code != 404 {
		t.Errorf("POST that waited: got %+v", got)
	}
	if resp, err := http.ReadResponse(newReader(slow), nil); err != nil || resp.StatusCode != 404 {
		t.Errorf("POST that trickled: got %v, %v", resp, err)
	}
}

// TestAnEndDuringAPostHarmsNoLaterRequest: the requests that follow on the same
// network connection are other clients'.
func TestAnEndDuringAPostHarmsNoLaterRequest(t *testing.T) {
	full := []byte(strings.Repeat("x", maxBody))
	for range 20 {
		release := make(chan struct{})
		s := start(t, Options{}, func(Conn) { <-release })
		n := s.negotiate(t, "?negotiateVersion=1")
		id := "?id=" + n.ConnectionToken
		if got := s.exchange(t.Context(), http.MethodGet, id, nil); got.code != http.StatusOK {
			t.Fatalf("first poll: %+v", got)
		}
		if got := s.exchange(t.Context(), http.MethodPost, id, bytes.NewReader(full)); got.code != http.StatusOK {
			t.Fatalf("a POST that finds room: %+v", got)
		}
		ended := make(chan answer, 1)
		go func() { ended <- s.exchange(t.Context(), http.MethodPost, id, bytes.NewReader(full)) }()
		time.AfterFunc(20*time.Millisecond, func() { close(release) })
		if got := wait(t, ended); got.code != http.StatusNotFound {
			t.Fatalf("a POST during the end: %+v", got)
		}
		// The client's transport takes the idle connection, if it may.
		other := s.negotiate(t, "?negotiateVersion=1")
		for range 2 {
			if got := s.exchange(t.Context(), http.MethodPost, "?id="+other.ConnectionToken, strings.NewReader("x")); got.code != http.StatusOK {
				t.Fatalf("a POST after it: %+v", got)
			}
		}
	}
}
