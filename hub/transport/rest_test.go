package transport

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An answer is a whole HTTP response.
type answer struct {
	code   int
	kind   string // its media type
	body   string
	header http.Header
}

func (a answer) is(code int, kind, body string) bool {
	return a.code == code && a.kind == kind && a.body == body
}

// exchange sends a request to the endpoint and returns the whole answer, or
// the code 0 when there is none.
func (s *testServer) exchange(ctx context.Context, method, query string, body io.Reader, headers ...string) answer {
	r, err := http.NewRequestWithContext(ctx, method, s.http.URL+"/hub"+query, body)
	if err != nil {
		return answer{}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.http.Client().Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(b), resp.Header}
}

// A restClient is a client without a WebSocket.
type restClient struct {
	s     *testServer
	id    string // the public one
	token string
}

func (s *testServer) restClient(t testing.TB) *restClient {
	t.Helper()
	n := s.negotiate(t, "?negotiateVersion=1")
	return &restClient{s, n.ConnectionID, n.ConnectionToken}
}

func (c *restClient) poll(t testing.TB) answer {
	return c.s.exchange(t.Context(), http.MethodGet, "?id="+c.token+"&_=17", nil)
}

func (c *restClient) post(t testing.TB, body string) answer {
	return c.s.exchange(t.Context(), http.MethodPost, "?id="+c.token, strings.NewReader(body))
}

func (c *restClient) delete(t testing.TB) answer {
	return c.s.exchange(t.Context(), http.MethodDelete, "?id="+c.token, nil)
}

// begin sends the first poll.
func (c *restClient) begin(t testing.TB) {
	t.Helper()
	if got := c.poll(t); !got.is(200, "application/octet-stream", "") {
		t.Fatalf("first poll: got %+v", got)
	}
}

// later runs a request in the background.
func later(f func() answer) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- f() }()
	return c
}

// pollLater sends a poll and waits until it is the open one.
func (c *restClient) pollLater(t testing.TB) <-chan answer {
	t.Helper()
	before := c.holder(t)
	got := later(func() answer { return c.poll(t) })
	until(t, func() bool { h := c.holder(t); return h != nil && h != before })
	return got
}

// record is the server's side.
func (c *restClient) record(t testing.TB) *record {
	t.Helper()
	tok, err := parseToken(c.token, c.s.endpoint.opts.Keys.Keys())
	if err != nil {
		t.Fatal(err)
	}
	return c.s.endpoint.findRecord(&tok)
}

func (c *restClient) holder(t testing.TB) *poll {
	t.Helper()
	rec := c.record(t)
	if rec == nil {
		return nil
	}
	rec.mu.Lock()
	p := rec.poll
	rec.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holder
}

// until waits for a condition that nothing announces.
func until(t testing.TB, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !condition(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
		<-tick.C
	}
}

// An openStream is the client's side of an event stream.
type openStream struct {
	resp *http.Response
	r    *bufio.Reader
}

// stream opens an event stream and reads its first bytes.
func (c *restClient) stream(t testing.TB, ctx context.Context) *openStream {
	t.Helper()
	resp := c.tryStream(t, ctx)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got status %d %q", resp.StatusCode, body(t, resp))
	}
	o := &openStream{resp, bufio.NewReader(resp.Body)}
	if got := o.line(t); got != ":\r\n" {
		t.Fatalf("got %q first", got)
	}
	return o
}

func (c *restClient) tryStream(t testing.TB, ctx context.Context) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.s.http.URL+"/hub?id="+c.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := c.s.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (o *openStream) line(t testing.TB) string {
	t.Helper()
	line, err := o.r.ReadString('\n')
	if err != nil {
		t.Fatalf("got %q and %v", line, err)
	}
	return line
}

// event reads one event.
func (o *openStream) event(t testing.TB) string {
	t.Helper()
	got, err := readEvent(o.r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// readEvent reads the data of the next event as a browser does (the HTML
// standard, "Interpreting an event stream"), carriage returns inside left out.
func readEvent(r *bufio.Reader) (string, error) {
	var data []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return strings.Join(data, "\n"), err
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			return strings.Join(data, "\n"), nil
		}
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
}

// sink is a serve that keeps its connection until Receive ends, and where the
// connection and the end are reported.
func sink() (serve func(Conn), conns <-chan Conn, result <-chan ended) {
	opened := make(chan Conn, 16)
	done := make(chan ended, 16)
	return func(c Conn) {
		opened <- c
		var all ended
		for {
			piece, err := c.Receive()
			if err != nil {
				all.err = err
				done <- all
				return
			}
			all.data = append(all.data, piece...)
		}
	}, opened, done
}

func text(s string) []*Message { return []*Message{NewMessage([]byte(s), false)} }
func soon() time.Time          { return time.Now().Add(patience) }
