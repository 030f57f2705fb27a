package hub

import (
	"context"
	"sync"
)

// A callContext is the context of one call. Most methods never look at it, so
// the machinery of cancellation is made only when somebody does.
type callContext struct {
	context.Context // the connection's

	mu        sync.Mutex
	inner     context.Context // made on demand, ends with the call
	cancelled context.CancelFunc
	over      bool
}

// real returns the context that carries the cancellation.
func (x *callContext) real() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inner == nil {
		x.inner, x.cancelled = context.WithCancel(x.Context)
		if x.over {
			x.cancelled()
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
	x.mu.Lock()
	inner := x.inner
	x.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return x.Context.Value(key)
}

// cancel ends the context.
func (x *callContext) cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.cancelled != nil {
		x.cancelled()
	}
}
