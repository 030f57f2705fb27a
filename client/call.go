package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Invoke calls a hub method and waits for its result.
//
// A refusal of the hub is a *HubError. If ctx ends first, the hub is told to
// cancel the call, and the error is that of ctx. If the connection ends first,
// the error is ErrConnectionLost, and the call may or may not have run;
// ErrNotConnected means that it has not. A result that does not fit T is a
// *protocol.Error; a Completion without a result yields the zero T. Arguments
// may be any values that the protocol can encode.
func Invoke[T any](ctx context.Context, c *Client, target string, args ...any) (T, error) {
	var zero T
	o, err := c.call(ctx, target, args)
	if err != nil || !o.hasValue {
		return zero, err
	}
	v, err := protocol.Decode[T](c.opts.Protocol, o.value)
	if err != nil {
		return zero, fmt.Errorf("client: result of %s: %w", target, err)
	}
	return v, nil
}

// Call calls a hub method and waits until it has run. It ignores the result;
// errors are those of Invoke.
func (c *Client) Call(ctx context.Context, target string, args ...any) error {
	_, err := c.call(ctx, target, args)
	return err
}

// Send calls a hub method without waiting for it: nobody answers, not even
// with an error. It returns when the record has a place in the outgoing
// buffer, which Stop writes out; ctx limits the wait for that place.
func (c *Client) Send(ctx context.Context, target string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	s := c.current()
	if s == nil {
		return ErrNotConnected
	}
	record, err := s.protocol.AppendInvocation(nil, "", target, args)
	if err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	if err := s.out.put(ctx, s.done, record); err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, target string, args []any) (outcome, error) {
	if err := ctx.Err(); err != nil {
		return outcome{}, fmt.Errorf("client: call %s: %w", target, err)
	}
	s := c.current()
	if s == nil {
		return outcome{}, ErrNotConnected
	}
	id, answer, err := s.calls.register()
	if err != nil {
		return outcome{}, err
	}
	record, err := s.protocol.AppendInvocation(nil, id, target, args)
	if err == nil {
		err = s.out.put(ctx, s.done, record)
	}
	if err != nil && !errors.Is(err, ErrConnectionLost) { // else the outcome says more
		s.calls.forget(id)
		return outcome{}, fmt.Errorf("client: call %s: %w", target, err)
	}
	select {
	case o := <-answer:
		return o.result(target)
	case <-ctx.Done():
	}
	if !s.calls.forget(id) {
		return (<-answer).result(target)
	}
	s.out.force(s.protocol.AppendCancelInvocation(nil, id))
	return outcome{}, fmt.Errorf("client: call %s: %w", target, ctx.Err())
}

// result turns what is not a result into an error.
func (o outcome) result(target string) (outcome, error) {
	switch {
	case o.err != nil:
		return outcome{}, o.err
	case o.refused:
		return outcome{}, &HubError{Target: target, Text: o.text}
	}
	return o, nil
}
