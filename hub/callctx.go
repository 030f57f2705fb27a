package hub

import (
	"context"
	"sync"
)

// A callContext is the context of one call. Most methods never look at it, so
// the machinery of cancellation is made only when somebody does.
type callContext struct {
	context.Context // the connection's
	conn            *conn

	holdsSlot bool // guarded by calls.mu: it counts as one of the calls that run at once

	mu    sync.Mutex
	inner context.Context // made on demand, ends with the call
	stop  context.CancelFunc
	over  bool // the client has cancelled, or the call has ended
	asked bool // the client has cancelled
}

// real returns the context that carries the cancellation.
func (x *callContext) real() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inner == nil {
		x.inner, x.stop = context.WithCancel(x.Context)
		if x.over {
			x.stop()
		}
	}
	return x.inner
}

func (x *callContext) Done() <-chan struct{} { return x.real().Done() }

func (x *callContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inner != nil {
		return x.inner.Err()
	}
	if x.over {
		return context.Canceled
	}
	return x.Context.Err()
}

// Value answers from the context that carries the cancellation once there is
// one, so that contexts derived from this one end with it cheaply.
func (x *callContext) Value(key any) any {
	if _, own := key.(callKey); own {
		return x
	}
	x.mu.Lock()
	inner := x.inner
	x.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return x.Context.Value(key)
}

// callKey finds the callContext behind a context.
type callKey struct{}

// cancelled reports whether the client has cancelled the call.
func (x *callContext) cancelled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}

// cancel ends the context because the client wants it.
func (x *callContext) cancel() {
	x.mu.Lock()
	x.asked = true
	x.mu.Unlock()
	x.end()
}

// end ends the context.
func (x *callContext) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.stop != nil {
		x.stop()
	}
}
