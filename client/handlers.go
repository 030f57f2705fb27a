package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Args are the arguments of one call by the hub, not yet decoded. They may be
// kept and used by many goroutines at once.
type Args struct {
	protocol protocol.Protocol
	raw      [][]byte
}

// Len is the number of arguments.
func (a Args) Len() int { return len(a.raw) }

// Raw returns argument i in the encoding of the client's protocol, or nil if
// there is none. It must not be changed.
func (a Args) Raw(i int) []byte {
	if i < 0 || i >= len(a.raw) {
		return nil
	}
	return a.raw[i]
}

// Value returns argument i with its encoding, to be passed on or written as
// JSON; the zero Value if there is none.
func (a Args) Value(i int) protocol.Value {
	if i < 0 || i >= len(a.raw) {
		return protocol.Value{}
	}
	return protocol.NewValue(a.protocol, a.raw[i])
}

// Bind decodes the arguments, in order, into what the pointers point to. Fewer
// arguments than pointers are an error, more are not: hubs may append
// arguments in time. A value that does not fit is a *protocol.Error.
func (a Args) Bind(pointers ...any) error {
	if len(pointers) > len(a.raw) {
		return fmt.Errorf("client: %d arguments, want at least %d", len(a.raw), len(pointers))
	}
	for i, p := range pointers {
		if err := a.protocol.Decode(a.raw[i], p); err != nil {
			return fmt.Errorf("client: argument %d: %w", i, err)
		}
	}
	return nil
}

// Arg decodes argument i, counted from 0. Errors are those of Args.Bind.
func Arg[T any](a Args, i int) (T, error) {
	var zero T
	if i < 0 || i >= len(a.raw) {
		return zero, fmt.Errorf("client: %d arguments, want argument %d", len(a.raw), i)
	}
	v, err := protocol.Decode[T](a.protocol, a.raw[i])
	if err != nil {
		return zero, fmt.Errorf("client: argument %d: %w", i, err)
	}
	return v, nil
}

// A handler is one registered function; one of the two is set.
type handler struct {
	plain  func(Args)
	result func(Args) (any, error)
}

// On registers a handler for a method that the hub calls. Names are matched
// without regard to case, as by the JavaScript client (the .NET client is
// case-sensitive: keep to the hub's spelling). Several handlers of one name
// run in the order in which they were registered. remove takes the handler
// away again; a call being handled may still reach it.
//
// If the hub waits for a result and no handler is registered with OnResult,
// the answer is the error "Client didn't provide a result.".
func (c *Client) On(target string, h func(args Args)) (remove func()) {
	return c.register(target, &handler{plain: h})
}

// OnAny registers a handler for every method that the hub calls, whatever its
// name. It runs after the handlers of that name and gives no result.
func (c *Client) OnAny(h func(target string, args Args)) (remove func()) {
	each := &h
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every = append(slices.Clone(c.every), each)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.every = slices.DeleteFunc(slices.Clone(c.every), func(x *func(string, Args)) bool { return x == each })
	}
}

// OnResult registers a handler whose result, or the text of whose error,
// answers the hub if it waits for one. If several handlers of one name give a
// result, the answer is the error "Client provided multiple results."; if any
// fails, its error. The answers go out in the order in which the hub asked, as
// all handlers run one after another. What is said at On holds too.
func OnResult[T any](c *Client, target string, h func(args Args) (T, error)) (remove func()) {
	return c.register(target, &handler{result: func(args Args) (any, error) { return h(args) }})
}

func (c *Client) register(target string, h *handler) (remove func()) {
	key := strings.ToLower(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[key] = append(slices.Clone(c.handlers[key]), h)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(c.handlers[key]), func(x *handler) bool { return x == h })
		if c.handlers[key] = rest; len(rest) == 0 {
			delete(c.handlers, key)
		}
	}
}

// handlersOf returns slices that nobody changes.
func (c *Client) handlersOf(target string) (named []*handler, every []*func(string, Args)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handlers[strings.ToLower(target)], c.every
}

// Texts that answer a hub in vain, as the JavaScript client words them.
const (
	textNoResult        = "Client didn't provide a result."
	textMultipleResults = "Client provided multiple results."
)

// dispatch runs user code, until there will be no more events.
func (c *Client) dispatch(l *life) {
	for {
		e, ok := l.in.take()
		switch {
		case !ok:
			return
		case e.callback != nil:
			e.callback()
		case l.ctx.Err() == nil: // what still waits at Stop is dropped
			c.handle(e)
		}
	}
}

// handle runs the handlers of one call and answers it if the hub waits.
func (c *Client) handle(e event) {
	handlers, every := c.handlersOf(e.target)
	if len(handlers) == 0 && len(every) == 0 {
		c.opts.Logger.Debug("no handler", "target", e.target)
	}
	var value any
	var failure error
	results := 0
	for _, h := range handlers {
		if h.plain != nil {
			h.plain(e.args)
			continue
		}
		v, err := h.result(e.args)
		if err != nil {
			failure = err
			continue
		}
		value = v
		results++
	}
	for _, h := range every {
		(*h)(e.target, e.args)
	}
	if e.id == "" {
		if failure != nil {
			c.opts.Logger.Warn("handler failed", "target", e.target, "err", failure)
		}
		return
	}
	answer := resultRecord(e, value, results, failure)
	if err := e.session.out.put(context.Background(), e.session.done, answer); err != nil {
		c.opts.Logger.Debug("result not sent", "target", e.target, "err", err)
	}
}

// resultRecord is the Completion for a call of the hub.
func resultRecord(e event, value any, results int, failure error) []byte {
	p := e.session.protocol
	switch {
	case failure != nil:
		return p.AppendError(nil, e.id, orText(failure.Error()))
	case results == 0:
		return p.AppendError(nil, e.id, textNoResult)
	case results > 1:
		return p.AppendError(nil, e.id, textMultipleResults)
	}
	record, err := p.AppendResult(nil, e.id, value)
	if err != nil {
		return p.AppendError(nil, e.id, orText(err.Error()))
	}
	return record
}

// orText replaces an empty text, which would read as no error at all.
func orText(text string) string {
	if text == "" {
		return textNoResult
	}
	return text
}
