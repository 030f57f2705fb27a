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
// may be any values that the protocol can encode, and streams made by Upload.
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
// buffer, which Stop writes out; ctx limits the wait for that place. Streams
// among the arguments go on after that, until they or the connection end.
func (c *Client) Send(ctx context.Context, target string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	s := c.current()
	if s == nil {
		return ErrNotConnected
	}
	plain, uploads := splitUploads(args)
	_, streamIDs, err := s.calls.register(nil, len(uploads))
	if err != nil {
		return err
	}
	record, err := s.protocol.AppendInvocation(nil, "", target, plain, streamIDs...)
	if err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	if err := s.out.put(ctx, s.done, record); err != nil {
		return fmt.Errorf("client: send %s: %w", target, err)
	}
	s.startUploads(context.Background(), uploads, streamIDs) // end with the session
	return nil
}

func (c *Client) call(ctx context.Context, target string, args []any) (outcome, error) {
	p, err := c.begin(ctx, target, args, nil)
	if err != nil {
		return outcome{}, err
	}
	select {
	case o := <-p.answer:
		return o.result(target)
	case <-ctx.Done():
	}
	if !p.abandon() {
		return (<-p.answer).result(target)
	}
	return outcome{}, fmt.Errorf("client: call %s: %w", target, ctx.Err())
}

// A pending call has been sent and not been answered.
type pending struct {
	*waiting
	session   *session
	id        string
	streamIDs []string // of its uploads
}

// begin sends the record of a call, which streams if it is given a place for
// items, and starts its uploads. If the connection is lost the call is settled
// with the reason.
func (c *Client) begin(ctx context.Context, target string, args []any, items *items) (*pending, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("client: call %s: %w", target, err)
	}
	s := c.current()
	if s == nil {
		return nil, ErrNotConnected
	}
	plain, uploads := splitUploads(args)
	w := &waiting{items: items}
	if len(uploads) > 0 {
		w.uploads, w.stop = context.WithCancel(context.Background()) // ended by settle and forget
	}
	id, streamIDs, err := s.calls.register(w, len(uploads))
	if err != nil {
		return nil, err
	}
	encode := s.protocol.AppendInvocation
	if items != nil {
		encode = s.protocol.AppendStreamInvocation
	}
	record, err := encode(nil, id, target, plain, streamIDs...)
	if err == nil {
		err = s.out.put(ctx, s.done, record)
	}
	if err != nil && !errors.Is(err, ErrConnectionLost) { // else the outcome says more
		s.calls.forget(id)
		return nil, fmt.Errorf("client: call %s: %w", target, err)
	}
	if err == nil && len(uploads) > 0 {
		s.startUploads(w.uploads, uploads, streamIDs)
	}
	return &pending{waiting: w, session: s, id: id, streamIDs: streamIDs}, nil
}

// abandon tells the hub that nobody waits any more. It returns false if the
// call has ended, with an outcome or with the session.
func (p *pending) abandon() bool {
	if !p.session.calls.forget(p.id) {
		return false
	}
	p.session.cancel(p.id)
	for _, id := range p.streamIDs { // the hub may wait for them, whatever it does about the call
		p.session.out.insist(p.session.protocol.AppendError(nil, id, textUploadCanceled))
	}
	return true
}

// cancel sends a CancelInvocation.
func (s *session) cancel(id string) {
	s.out.insist(s.protocol.AppendCancelInvocation(nil, id))
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
