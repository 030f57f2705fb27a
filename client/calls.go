package client

import (
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

// calls are those of one session that wait for their Completion.
type calls struct {
	mu     sync.Mutex
	last   uint64                    // id given
	wait   map[string]chan<- outcome // by invocation id
	failed bool
}

func newCalls() *calls {
	return &calls{wait: make(map[string]chan<- outcome)}
}

// register makes a new id. The channel gets exactly one outcome, unless forget
// comes first.
func (cs *calls) register() (id string, answer <-chan outcome, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.failed {
		return "", nil, ErrNotConnected
	}
	cs.last++
	id = strconv.FormatUint(cs.last, 10)
	ch := make(chan outcome, 1)
	cs.wait[id] = ch
	return id, ch, nil
}

// forget drops a call whose caller waits no longer. It returns false if the
// outcome was already there.
func (cs *calls) forget(id string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	_, ok := cs.wait[id]
	delete(cs.wait, id)
	return ok
}

// settle hands over an outcome. Unknown ids are ignored, as by all clients.
func (cs *calls) settle(id []byte, o outcome) {
	cs.mu.Lock()
	ch, ok := cs.wait[string(id)]
	delete(cs.wait, string(id))
	cs.mu.Unlock()
	if ok {
		ch <- o
	}
}

// complete settles a call with its Completion.
func (cs *calls) complete(m *protocol.Message) {
	o := outcome{hasValue: m.HasValue, refused: m.HasError, text: string(m.Error)}
	if m.HasValue {
		o.value = append([]byte{}, m.Value...)
	}
	cs.settle(m.InvocationID, o)
}

// refuseItem settles a call that was answered with an item of a stream: the
// method streams, and a plain call cannot take that.
func (cs *calls) refuseItem(m *protocol.Message) {
	cs.settle(m.InvocationID, outcome{err: errStreamItem})
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
	for _, ch := range waiting {
		ch <- outcome{err: err}
	}
}
