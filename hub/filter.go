package hub

import "context"

// An Invocation is what filters see of a call, after its arguments were bound
// and its caller admitted.
type Invocation struct {
	Target string
	Caller *Caller
	Args   []any // a filter may replace elements by others of the same type
}

// A Filter wraps calls and the connect and disconnect callbacks. Fields may be
// nil. The filter that was added first is the outermost. Filters cost boxing
// of every argument; a hub without any pays nothing.
type Filter struct {
	// Invoke wraps one call: it may change the arguments, the result or the
	// error, or not call next at all.
	Invoke func(ctx context.Context, in *Invocation, next func(context.Context) (any, error)) (any, error)

	// Connected wraps OnConnected.
	Connected func(ctx context.Context, c *Caller, next func(context.Context) error) error

	// Disconnected wraps OnDisconnected.
	Disconnected func(ctx context.Context, c *Caller, cause error, next func(context.Context))
}

// runFilters runs the call through the filters, outermost first.
func runFilters(ctx context.Context, filters []Filter, in *Invocation, invoke func(context.Context, *Caller, []any) (any, error)) (any, error) {
	for i, f := range filters {
		if f.Invoke != nil {
			rest := filters[i+1:]
			return f.Invoke(ctx, in, func(ctx context.Context) (any, error) {
				return runFilters(ctx, rest, in, invoke)
			})
		}
	}
	return invoke(ctx, in.Caller, in.Args)
}

func connectedThrough(ctx context.Context, filters []Filter, c *Caller, last func(context.Context, *Caller) error) error {
	for i, f := range filters {
		if f.Connected != nil {
			rest := filters[i+1:]
			return f.Connected(ctx, c, func(ctx context.Context) error {
				return connectedThrough(ctx, rest, c, last)
			})
		}
	}
	if last == nil {
		return nil
	}
	return last(ctx, c)
}

func disconnectedThrough(ctx context.Context, filters []Filter, c *Caller, cause error, last func(context.Context, *Caller, error)) {
	for i, f := range filters {
		if f.Disconnected != nil {
			rest := filters[i+1:]
			f.Disconnected(ctx, c, cause, func(ctx context.Context) {
				disconnectedThrough(ctx, rest, c, cause, last)
			})
			return
		}
	}
	if last != nil {
		last(ctx, c, cause)
	}
}
