package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A sequence is one connection, what a model says about it, and the means to
// send it requests.
type sequence struct {
	t        *testing.T
	endpoint *Endpoint
	token    token
	conns    chan Conn

	state  string
	posts  int
	conn   Conn
	queued chan error // what Send of the message that waits will return; nil if none
	leave  context.CancelFunc
}

func newSequence(t *testing.T) *sequence {
	q := &sequence{t: t, conns: make(chan Conn, 1), state: "fresh"}
	e, err := New(Options{
		PollTimeout: time.Millisecond,
		Open: func(*http.Request, Info) (func(Conn), error) {
			return func(c Conn) {
				q.conns <- c
				for {
					if _, err := c.Receive(); err != nil {
						return
					}
				}
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	q.endpoint = e
	q.token = token{until: time.Now().Add(time.Hour), id: newID(), owner: e.owner}
	q.token.sign(&e.opts.Keys.Keys()[0])
	return q
}

func (q *sequence) request(ctx context.Context, method, accept, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/hub?id="+q.token.text, strings.NewReader(body))
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	q.endpoint.ServeHTTP(timedRecorder{w}, r)
	return w
}

// want sends a request and compares the answer.
func (q *sequence) want(method, accept string, code int, text string) {
	q.t.Helper()
	w := q.request(q.t.Context(), method, accept, "x")
	if w.Code != code || w.Body.String() != text {
		q.t.Fatalf("%s %s in state %s: got status %d %q, want %d %q", method, accept, q.state, w.Code, w.Body, code, text)
	}
}

// over waits until the connection has ended, as far as the client can tell.
func (q *sequence) over(state string) {
	q.t.Helper()
	if err := q.endpoint.Wait(q.t.Context()); err != nil {
		q.t.Fatal(err)
	}
	if q.queued != nil {
		if err := wait(q.t, q.queued); err == nil {
			q.t.Fatal("a message was sent to nobody")
		}
		q.queued = nil
	}
	if q.leave != nil {
		q.leave()
	}
	q.state = state
}

const eventStreamType = "text/event-stream"

func (q *sequence) poll() {
	switch q.state {
	case "fresh", "pending":
		q.want("GET", "", 200, "")
		q.conn, q.state = wait(q.t, q.conns), "polling"
	case "polling":
		if q.queued == nil {
			q.want("GET", "", 200, "")
			return
		}
		q.want("GET", "", 200, "message")
		if err := wait(q.t, q.queued); err != nil {
			q.t.Fatal(err)
		}
		q.queued = nil
	case "closing", "deleted":
		q.want("GET", "", 204, "")
		q.over("gone")
	case "streaming":
		q.want("GET", "", 400, textOtherWay)
	default:
		q.want("GET", "", 404, textUnknownID)
	}
}

func (q *sequence) post() {
	switch q.state {
	case "fresh":
		q.state = "pending"
		fallthrough
	case "pending", "polling", "closing", "streaming":
		q.want("POST", "", 200, "")
	default:
		q.want("POST", "", 404, textUnknownID)
	}
}

func (q *sequence) delete() {
	switch q.state {
	case "fresh", "pending", "streaming":
		q.want("DELETE", "", 400, textNoDelete)
	case "polling", "closing":
		q.want("DELETE", "", 202, "")
		q.over("deleted")
	default:
		q.want("DELETE", "", 404, textUnknownID)
	}
}

func (q *sequence) stream() {
	switch q.state {
	case "fresh", "pending":
		var ctx context.Context
		ctx, q.leave = context.WithCancel(q.t.Context())
		go q.request(ctx, "GET", eventStreamType, "")
		q.conn, q.state = wait(q.t, q.conns), "streaming"
	case "polling", "closing":
		q.want("GET", eventStreamType, 400, textOtherWay)
	case "streaming":
		q.want("GET", eventStreamType, 409, "")
	default:
		q.want("GET", eventStreamType, 404, textUnknownID)
	}
}

func (q *sequence) send() {
	switch {
	case q.state == "polling" && q.queued == nil:
		p := q.conn.(*pollConn)
		q.queued = make(chan error, 1)
		queued, conn := q.queued, q.conn
		go func() { queued <- conn.Send(text("message"), soon()) }()
		until(q.t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.batch != nil })
	case q.state == "streaming":
		if err := q.conn.Send(text("message"), soon()); err != nil {
			q.t.Fatal(err)
		}
	case q.state == "closing":
		if err := q.conn.Send(text("message"), soon()); !errors.Is(err, ErrClosing) {
			q.t.Fatalf("Send behind the end: got %v", err)
		}
	}
}

func (q *sequence) sendClose() {
	if q.conn == nil || q.queued != nil {
		return
	}
	if err := q.conn.SendClose(StatusNormal, soon()); err != nil {
		q.t.Fatal(err)
	}
	switch q.state {
	case "polling":
		q.state = "closing"
	case "streaming":
		q.over("gone")
	}
}

func (q *sequence) closeNow() {
	if q.conn == nil {
		return
	}
	q.conn.CloseNow()
	switch q.state {
	case "polling", "closing":
		q.over("deleted")
	case "streaming":
		q.over("gone")
	}
}

func (q *sequence) abandon() {
	if q.state == "streaming" {
		q.leave()
		q.over("gone")
	}
}

// FuzzSequence sends requests for one connection in any order, and has the
// server do something in between, and compares each status with a model.
func FuzzSequence(f *testing.F) {
	for _, seed := range []string{
		"pppp", "oopopsp", "psposppdp", "pcppp", "pcdpp", "pnppo", "podeo", "dpoe", "eoesxpod", "oed", "ecpe", "ensp", "psdpp", "psnp", "pcsopdo", "pspspspcop",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		q := newSequence(t)
		do := map[byte]func(){
			'p': q.poll, 'o': q.post, 'd': q.delete, 'e': q.stream, 's': q.send, 'c': q.sendClose, 'n': q.closeNow, 'x': q.abandon,
		}
		for _, step := range steps[:min(len(steps), 40)] {
			if f := do[step]; f != nil {
				f()
			}
		}
		q.closeNow()
		if err := q.endpoint.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if q.queued != nil {
			if err := wait(t, q.queued); err == nil {
				t.Fatal("a message was sent to nobody")
			}
		}
		if q.leave != nil {
			q.leave()
		}
		if rec := q.endpoint.findRecord(&q.token); rec != nil { // what is left is waiting for its time
			rec.expire()
			rec.tell()
		}
		if n := len(q.endpoint.records.byToken); n != 0 || q.endpoint.records.pending != 0 || q.endpoint.records.over != 0 {
			t.Errorf("%d records are left, %d pending, %d over", n, q.endpoint.records.pending, q.endpoint.records.over)
		}
	})
}
