package hub

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Bounds of client results.
const (
	maxQuestions = 10000            // that wait for an answer at once
	questionLife = 10 * time.Minute // of one that another instance has asked
	ownerCheck   = time.Second      // between two looks at whether the owner lives
)

// Invoke calls the client method target of one connection, wherever in the
// fleet it is, and returns the client's result. A method may ask its own
// caller: while it waits its caller's next call may run (see
// MaximumParallelInvocationsPerClient), and at most 64 methods of a connection
// may wait so.
//
// Errors: ErrConnectionNotFound when no instance has the connection, or when it
// ends or its instance dies before the answer; *Error with the client's text
// when the client answers with an error, and also when its answer is no R or no
// result at all; ErrNoAnswer after ClientResultTimeout; ErrUnavailable when the
// backplane does not reach the connection's instance, or when 10,000 questions
// wait already; otherwise the cause of ctx. The client is not told when nobody
// waits any longer; its late answer is ignored.
func Invoke[R any](ctx context.Context, to SingleClient, target string, args ...any) (R, error) {
	a, err := to.ask(ctx, target, args)
	if err != nil {
		var zero R
		return zero, err
	}
	v, err := protocol.Decode[R](a.protocol, a.value)
	if err != nil {
		return v, Errorf("Error trying to deserialize result to %T. %w", v, err)
	}
	return v, nil
}

// A clientAnswer is what a client has answered, or why it will not.
type clientAnswer struct {
	protocol protocol.Protocol
	value    []byte
	err      error
}

// A question is an invocation of a client that is owed an answer.
type question struct {
	id   string
	conn *conn // who must answer; nil if another instance asks it for us

	answered chan clientAnswer // for who asked here
	channel  string            // where the answer goes, for who asked elsewhere
	expiry   *time.Timer       // of those
}

// questions are those that wait for an answer on this instance.
type questions struct {
	mu     sync.Mutex
	byID   map[string]*question
	byConn map[*conn]map[string]*question
}

var errManyQuestions = fmt.Errorf("hub: %d client results are waited for already: %w", maxQuestions, ErrUnavailable)

// add registers q unless there are too many or its id is taken.
func (t *questions) add(q *question) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= maxQuestions {
		return errManyQuestions
	}
	if t.byID == nil {
		t.byID, t.byConn = make(map[string]*question), make(map[*conn]map[string]*question)
	}
	if t.byID[q.id] != nil {
		return fmt.Errorf("hub: invocation id %q is in use", q.id)
	}
	t.byID[q.id] = q
	if q.conn != nil {
		of := t.byConn[q.conn]
		if of == nil {
			of = make(map[string]*question)
			t.byConn[q.conn] = of
		}
		of[q.id] = q
	}
	return nil
}

// take removes and returns the question with that id, if from is who must
// answer it; nil stands for another instance. wrong: somebody else must.
func (t *questions) take(id []byte, from *conn) (q *question, wrong bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q = t.byID[string(id)]
	if q == nil || q.conn != from {
		return nil, q != nil
	}
	t.forget(q)
	return q, false
}

// drop removes a question and reports whether it was still there.
func (t *questions) drop(q *question) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[q.id] != q {
		return false
	}
	t.forget(q)
	return true
}

// of removes and returns the questions to a connection.
func (t *questions) of(c *conn) []*question {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*question
	for _, q := range t.byConn[c] {
		all = append(all, q)
		t.forget(q)
	}
	return all
}

// forget removes q; mu is held.
func (t *questions) forget(q *question) {
	delete(t.byID, q.id)
	if q.conn != nil {
		of := t.byConn[q.conn]
		if delete(of, q.id); len(of) == 0 {
			delete(t.byConn, q.conn)
		}
	}
	if q.expiry != nil {
		q.expiry.Stop()
	}
}

func (t *questions) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// disconnectedText is the answer for a connection that ended first, between
// instances (the official server's).
const disconnectedText = "Connection disconnected."

// newQuestionID makes an invocation id that no instance has: 22 characters, as
// ASP.NET Core's over Redis.
func newQuestionID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// ask sends the question and waits for the answer.
func (s SingleClient) ask(ctx context.Context, target string, args []any) (clientAnswer, error) {
	if err := validName("target", target); err != nil {
		return clientAnswer{}, err
	}
	if err := giveBack(ctx); err != nil {
		return clientAnswer{}, err
	}
	q := &question{id: newQuestionID(), answered: make(chan clientAnswer, 1)}
	if c := s.h.registry.conn(s.id); c != nil {
		return s.h.askHere(ctx, c, q, target, args)
	}
	if s.h.relay == nil {
		return clientAnswer{}, ErrConnectionNotFound
	}
	if err := validName("connection", s.id); err != nil {
		return clientAnswer{}, err
	}
	return s.h.relay.ask(ctx, s.id, q, target, args)
}

// askHere asks a connection of this instance.
func (h *Hub) askHere(ctx context.Context, c *conn, q *question, target string, args []any) (clientAnswer, error) {
	q.conn = c
	if err := h.questions.add(q); err != nil {
		return clientAnswer{}, err
	}
	defer h.questions.drop(q)
	if err := h.sendHere(c, q.id, target, args); err != nil {
		return clientAnswer{}, err
	}
	return h.await(ctx, q, c.ctx.Done(), nil)
}

// await waits for the answer until the connection is gone, or until lost says
// why none will come. An answer that is there counts whatever else has happened.
func (h *Hub) await(ctx context.Context, q *question, gone <-chan struct{}, lost <-chan error) (clientAnswer, error) {
	deadline := time.NewTimer(h.opts.ClientResultTimeout)
	defer deadline.Stop()
	var why error
	select {
	case a := <-q.answered:
		return a, a.err
	case <-gone:
		why = fmt.Errorf("%w: it ended before it answered", ErrConnectionNotFound)
	case why = <-lost:
	case <-deadline.C:
		why = ErrNoAnswer
	case <-h.over:
		why = ErrNotRunning
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	select {
	case a := <-q.answered:
		return a, a.err
	default:
		return clientAnswer{}, why
	}
}

// answer passes a client's completion on to who waits for it, and reports
// whether anybody does. A connection that answers for another one is told off.
func (c *conn) answer(m *protocol.Message) (bool, error) {
	q, wrong := c.hub.questions.take(m.InvocationID, c)
	switch {
	case wrong:
		return false, ErrProtocol.because(&wireError{
			name: "InvalidOperationException",
			text: fmt.Sprintf("Connection ID '%s' is not valid for invocation ID '%s'.", c.id, m.InvocationID),
		})
	case q == nil:
		return false, nil
	case q.answered != nil:
		q.answered <- answerOf(c.protocol, m)
	default:
		c.hub.relay.passOn(q, c.protocol.Name(), completionFrame(c.protocol, m))
	}
	return true, nil
}

// wireError is an error with the type name that the official server's has.
type wireError struct{ name, text string }

func (e *wireError) Error() string    { return e.text }
func (e *wireError) TypeName() string { return e.name }

// answerOf copies what a completion says.
func answerOf(p protocol.Protocol, m *protocol.Message) clientAnswer {
	switch {
	case m.HasError:
		return clientAnswer{err: Errorf("%s", m.Error)}
	case !m.HasValue:
		return clientAnswer{err: Errorf("The client answered without a result.")}
	}
	return clientAnswer{protocol: p, value: append([]byte(nil), m.Value...)}
}

// completionFrame writes a client's completion anew, its value as it was.
func completionFrame(p protocol.Protocol, m *protocol.Message) []byte {
	id := string(m.InvocationID)
	switch {
	case m.HasError:
		return p.AppendError(nil, id, string(m.Error))
	case m.HasValue:
		if frame, err := p.AppendResult(nil, id, protocol.NewValue(p, m.Value)); err == nil {
			return frame
		}
	}
	return p.AppendVoid(nil, id)
}

// endQuestions tells those who wait for a connection that has ended.
func (c *conn) endQuestions() {
	for _, q := range c.hub.questions.of(c) {
		if q.answered == nil { // else it watches the connection itself
			c.hub.relay.passOn(q, c.protocol.Name(), c.protocol.AppendError(nil, q.id, disconnectedText))
		}
	}
}
