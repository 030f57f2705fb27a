package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// An outcome is what became of a call.
type outcome struct {
	value    []byte // the raw result
	hasValue bool

	refused bool // the hub answered with text
	text    string

	err error // there is no answer
}

// A waiting is a call that waits for its Completion.
type waiting struct {
	answer chan outcome // gets exactly one, unless forget comes first
	items  *items       // of a call that streams; nil for a plain one

	// uploads ends with the call. It is nil if nothing is uploaded.
	uploads context.Context
	stop    context.CancelFunc
}

// calls are those of one session that wait for their Completion.
type calls struct {
	mu     sync.Mutex
	last   uint64              // id given
	wait   map[string]*waiting // by invocation id
	failed bool
}

func newCalls() *calls {
	return &calls{wait: make(map[string]*waiting)}
}

// register makes an id for a call, and ids for its uploads from the same
// counter, as the JavaScript client does. A nil w expects no Completion and
// gets no id.
func (cs *calls) register(w *waiting, uploads int) (id string, streamIDs []string, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.failed {
		return "", nil, ErrNotConnected
	}
	if w != nil {
		id = cs.next()
		w.answer = make(chan outcome, 1)
		cs.wait[id] = w
	}
	for range uploads {
		streamIDs = append(streamIDs, cs.next())
	}
	return id, streamIDs, nil
}

// next needs mu.
func (cs *calls) next() string {
	cs.last++
	return strconv.FormatUint(cs.last, 10)
}

// find returns a call, or nil.
func (cs *calls) find(id []byte) *waiting {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.wait[string(id)]
}

// forget drops a call whose caller waits no longer. It returns false if the
// outcome was already there.
func (cs *calls) forget(id string) bool {
	cs.mu.Lock()
	w, ok := cs.wait[id]
	delete(cs.wait, id)
	cs.mu.Unlock()
	if ok && w.stop != nil {
		w.stop()
	}
	return ok
}

// settle hands over an outcome. Unknown ids are ignored, as by all clients.
func (cs *calls) settle(id []byte, o outcome) {
	cs.mu.Lock()
	w, ok := cs.wait[string(id)]
	delete(cs.wait, string(id))
	cs.mu.Unlock()
	if ok {
		w.settle(o)
	}
}

func (w *waiting) settle(o outcome) {
	if w.stop != nil {
		w.stop()
	}
	w.answer <- o
}

// complete settles a call with its Completion.
func (cs *calls) complete(m *protocol.Message) {
	o := outcome{hasValue: m.HasValue, refused: m.HasError, text: string(m.Error)}
	if m.HasValue {
		o.value = append([]byte{}, m.Value...)
	}
	cs.settle(m.InvocationID, o)
}

var errStreamItem = errors.New("client: the hub answered a plain call with a stream item")

// fail settles all calls: the session has ended because of cause, which may be
// nil. No call can be registered afterwards.
func (cs *calls) fail(cause error) {
	err := ErrConnectionLost
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrConnectionLost, cause)
	}
	cs.mu.Lock()
	waiting := cs.wait
	cs.wait, cs.failed = nil, true
	cs.mu.Unlock()
	for _, w := range waiting {
		w.settle(outcome{err: err})
	}
}
