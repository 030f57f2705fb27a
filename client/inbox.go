package client

import "sync"

// An event is something that user code is to be told of: an invocation, or
// with a callback a change of the connection.
type event struct {
	session  *session // where an invocation came from
	target   string
	id       string // not empty if the server waits for a result
	args     Args
	size     int // bytes held
	callback func()
}

// An inbox holds events until the dispatcher takes them. It is bounded in
// events and bytes: put waits while there is no room.
type inbox struct {
	limit int           // of events
	wake  chan struct{} // holds one token while there may be something to take

	mu     sync.Mutex
	events []event
	head   int // of events, those before it have been taken
	bytes  int
	closed bool
	room   chan struct{} // not nil while somebody waits; closed by take
}

func newInbox(limit int) *inbox {
	return &inbox{limit: limit, wake: make(chan struct{}, 1)}
}

// put appends an event. It returns false if done closes while it waits.
func (in *inbox) put(done <-chan struct{}, e event) bool {
	for {
		room := in.tryPut(e)
		if room == nil {
			return true
		}
		select {
		case <-room:
		case <-done:
			return false
		}
	}
}

// tryPut appends an event, or returns what to wait for.
func (in *inbox) tryPut(e event) (room <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	waiting := len(in.events) - in.head
	if waiting > 0 && (waiting >= in.limit || in.bytes+e.size > maxHandlerBytes) {
		if in.room == nil {
			in.room = make(chan struct{})
		}
		return in.room
	}
	if in.head > 0 && len(in.events) == cap(in.events) {
		n := copy(in.events, in.events[in.head:])
		clear(in.events[n:])
		in.events, in.head = in.events[:n], 0
	}
	in.events = append(in.events, e)
	in.bytes += e.size
	in.signal()
	return nil
}

// close makes take return false once everything has been taken. Nothing may
// be put after it.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.signal()
}

// signal needs mu.
func (in *inbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take waits for an event. It returns false when there will be none.
func (in *inbox) take() (event, bool) {
	for {
		e, ok, closed := in.tryTake()
		if ok || closed {
			return e, ok
		}
		<-in.wake
	}
}

func (in *inbox) tryTake() (e event, ok, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.head == len(in.events) {
		return event{}, false, in.closed
	}
	e = in.events[in.head]
	in.events[in.head] = event{}
	in.bytes -= e.size
	if in.head++; in.head == len(in.events) {
		in.events, in.head = in.events[:0], 0
	}
	if in.room != nil {
		close(in.room)
		in.room = nil
	}
	return e, true, false
}
