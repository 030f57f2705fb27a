package hub

import (
	"context"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// admit decides whether one more stream may run; one that may not waits in
// line for its refusal like a plain call. q.mu is held.
func (q *calls) admit(c *conn, in *invocation) {
	target := string(in.message.Target)
	switch {
	case in.message.Type == protocol.StreamInvocation && q.streams(in.message.InvocationID):
		in.refusal = "Invocation ID '" + string(in.message.InvocationID) + "' is already in use."
	case q.beside >= c.hub.opts.MaximumStreamsPerConnection:
		in.refusal = "An unexpected error occurred invoking '" + target + "' on the server. HubException: Too many streams on this connection."
	default:
		return
	}
	in.beside = false
}

// streams reports whether a stream with that id is queued or runs; q.mu is held.
func (q *calls) streams(id []byte) bool {
	for _, list := range [][]*invocation{q.active, q.queue} {
		for _, in := range list {
			if in.beside && in.message.Type == protocol.StreamInvocation && string(in.message.InvocationID) == string(id) {
				return true
			}
		}
	}
	return false
}

// startBeside starts a stream; q.mu is held.
func (q *calls) startBeside(c *conn, in *invocation) {
	q.active = append(q.active, in)
	c.running.Add(1)
	go c.runBeside(in) // joined through running
}

// runBeside runs a stream and answers it.
func (c *conn) runBeside(in *invocation) {
	finished := false
	defer func() {
		if !finished { // the method has ended the goroutine
			c.running.Add(1)
			go func() {
				defer c.running.Done()
				c.calls.end(in)
				c.finishBeside(in, c.exited(in))
			}()
		}
		c.running.Done()
	}()
	writer := c.call(in)
	finished = true
	c.finishBeside(in, writer)
}

// finishBeside ends a stream that has been answered.
func (c *conn) finishBeside(in *invocation, writer bool) {
	q := &c.calls
	q.mu.Lock()
	q.ended--
	if in.message.Type == protocol.Invocation {
		q.uploading--
	}
	q.progress()
	q.mu.Unlock()
	c.hub.recycle(in)
	if writer {
		c.writeQueue()
	}
}

// end takes a stream out of those that run, ahead of its completion: a client
// that has read that may use its id and its place again.
func (q *calls) end(in *invocation) {
	if !in.beside {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(in)
	q.beside--
	q.ended++
}

// startHead starts the streams at the head of the queue; q.mu is held.
func (q *calls) startHead(c *conn) {
	for len(q.queue) > 0 && q.queue[0].beside {
		q.startBeside(c, q.pop())
		q.progress()
	}
}

// giveBack makes room for the next call while a method waits for an answer of
// a client, which may first want to call in turn. The method keeps running and
// does not take the slot again. Calls that hold none, and contexts that are no
// call's, change nothing.
func giveBack(ctx context.Context) error {
	x, _ := ctx.Value(callKey{}).(*callContext)
	if x == nil {
		return nil
	}
	c := x.conn
	q := &c.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	if !x.holdsSlot {
		return nil
	}
	if q.lent >= maxLentSlots {
		return Errorf("Too many methods of this connection wait for client results.")
	}
	x.holdsSlot = false
	q.lent++
	q.invokers--
	q.startHead(c)
	if len(q.queue) > 0 && !q.closed {
		q.invokers++
		c.running.Add(1)
		go c.invoke()
	}
	return nil
}

// maxLentSlots bounds the methods of one connection that run beyond the
// parallel limit because they wait for a client.
const maxLentSlots = 64
