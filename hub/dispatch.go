package hub

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// yieldAbove is the length of a receiver's queue from which a sender gives the
// writers a turn before it goes on.
const yieldAbove = 128

// An invocation is one call of a client, with a copy of its record. It is
// reused after the call.
type invocation struct {
	record  []byte
	message protocol.Message
	ctx     *callContext // nil for calls that nobody can cancel
}

// calls is a connection's queue of calls and those that run. An invoker exists
// only while calls are queued.
type calls struct {
	mu        sync.Mutex
	queue     []*invocation
	active    []*invocation
	bytes     int // of the queue
	invokers  int
	closed    bool
	connected chan struct{} // closed when OnConnected is over; nil from then on
	accepted  bool          // OnConnected succeeded
	room      chan struct{} // not nil while the reader waits
}

// connect is the connect step, ahead of every call: it subscribes the
// connection's own channels, runs OnConnected and goes on as the first invoker.
func (c *conn) connect() {
	c.hub.relay.subscribeOwn(c)
	err := c.hub.runConnected(c)
	if err != nil {
		c.end(ErrConnectFailed.because(err))
	}
	q := &c.calls
	q.mu.Lock()
	q.accepted = err == nil
	close(q.connected)
	q.connected = nil
	more := max(0, min(len(q.queue), c.hub.opts.MaximumParallelInvocationsPerClient)-1)
	q.invokers += more
	c.running.Add(more)
	q.mu.Unlock()
	for range more {
		go c.invoke()
	}
	c.invokeQueued()
}

// awaitConnected waits for the connect step and reports whether it succeeded.
func (q *calls) awaitConnected() bool {
	q.mu.Lock()
	connected := q.connected
	q.mu.Unlock()
	if connected != nil {
		<-connected
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.accepted
}

// dispatch queues a call. While the queue is full it waits, and with it the
// reader; the client's timeout clock stands still meanwhile.
func (c *conn) dispatch(in *invocation) {
	q := &c.calls
	if len(in.message.InvocationID) > 0 {
		in.ctx = &callContext{Context: c.ctx}
	}
	size := in.size()
	q.mu.Lock()
	for !q.closed && (len(q.queue) >= c.hub.opts.InvocationQueue || len(q.queue) > 0 && q.bytes+size > maxQueuedCallBytes) {
		c.awaitCalls(nil)
	}
	if q.closed {
		q.mu.Unlock()
		c.hub.recycle(in)
		return
	}
	q.queue = append(q.queue, in)
	q.bytes += size
	start := q.connected == nil && q.invokers < c.hub.opts.MaximumParallelInvocationsPerClient
	if start {
		q.invokers++
		c.running.Add(1)
	}
	q.mu.Unlock()
	if start {
		go c.invoke()
	}
}

// awaitCalls waits for the next step of the invokers, or until expired; calls.mu
// is held, and given up meanwhile. The client's timeout clock stands still.
func (c *conn) awaitCalls(expired <-chan time.Time) {
	room := make(chan struct{})
	c.calls.room = room
	c.calls.mu.Unlock()
	c.blocked.Store(true)
	select {
	case <-room:
	case <-expired:
	case <-c.ctx.Done():
	}
	c.touch()
	c.blocked.Store(false)
	c.calls.mu.Lock()
}

// finishCalls gives the calls that the client sent before its polite end the
// time of a close to be run.
func (c *conn) finishCalls() {
	until := time.Now().Add(c.hub.opts.CloseTimeout) // before the timer, which fires only once
	expired := time.NewTimer(c.hub.opts.CloseTimeout)
	defer expired.Stop()
	q := &c.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.invokers > 0 && !q.closed && c.ctx.Err() == nil && time.Now().Before(until) {
		c.awaitCalls(expired.C)
	}
}

// maxQueuedCallBytes bounds what one client's queued calls hold, in bytes; a
// single larger one waits alone.
const maxQueuedCallBytes = 512 << 10

// size is about what a queued call holds, in bytes.
func (in *invocation) size() int { return cap(in.record) + 24*cap(in.message.Arguments) }

// invokeQueued is an invoker: it runs queued calls until none is left. An
// invoker whose last answer found the outbound queue idle goes on as the
// writer, which spares starting one; from then on it is no invoker.
func (c *conn) invokeQueued() {
	defer c.running.Done()
	q := &c.calls
	var done *invocation
	writer := false
	for {
		q.mu.Lock()
		if done != nil {
			q.forget(done)
		}
		if len(q.queue) == 0 || q.closed || c.closing.Load() != 0 { // teardown drops what is left
			q.invokers--
			if q.invokers == 0 {
				q.queue, q.active = nil, nil
				if q.room != nil {
					close(q.room)
					q.room = nil
				}
			}
			q.mu.Unlock()
			break
		}
		in := q.queue[0]
		q.bytes -= in.size()
		n := copy(q.queue, q.queue[1:])
		q.queue[n] = nil
		q.queue = q.queue[:n]
		q.active = append(q.active, in)
		if q.room != nil {
			close(q.room)
			q.room = nil
		}
		q.mu.Unlock()
		if done != nil {
			c.hub.recycle(done)
		}
		if writer { // the next call may take its time
			go c.write()
		}
		writer = c.call(in)
		done = in
	}
	if done != nil {
		c.hub.recycle(done)
	}
	if writer {
		c.writeQueue()
	}
}

// forget takes a call out of the active ones; q.mu is held.
func (q *calls) forget(in *invocation) {
	for i, a := range q.active {
		if a == in {
			last := len(q.active) - 1
			q.active[i] = q.active[last]
			q.active[last] = nil
			q.active = q.active[:last]
			return
		}
	}
}

// cancelCall ends the context of the queued or running call with that id.
func (c *conn) cancelCall(id []byte) {
	q := &c.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range [][]*invocation{q.active, q.queue} {
		for _, in := range list {
			if in.ctx != nil && string(in.message.InvocationID) == string(id) {
				in.ctx.cancel()
				return
			}
		}
	}
}

// close drops the queued calls; those that run see their context ended.
func (q *calls) close(c *conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for i, in := range q.queue {
		c.hub.recycle(in)
		q.queue[i] = nil
	}
	q.queue, q.bytes = nil, 0
}

// call runs one invocation and answers it. It reports whether the caller has
// become the writer.
func (c *conn) call(in *invocation) (writer bool) {
	k := call{caller: &c.caller, in: in, target: view(in.message.Target)}
	ctx := c.ctx
	if in.ctx != nil {
		ctx = in.ctx
		defer in.ctx.cancel()
	}
	m := c.hub.method(in.message.Target)
	c.hub.stats.invocations.Add(1)
	if m == nil {
		c.hub.stats.failed.Add(1)
		return c.fail(in, unknownMethod(k.target))
	}
	k.method, k.target = m, m.target
	err := c.run(ctx, &k)
	switch {
	case k.unencodable != nil:
		c.end(ErrUnencodable.because(k.unencodable))
	case err != nil:
		c.hub.stats.failed.Add(1)
		c.hub.logCallError(&k, err)
		writer = c.fail(in, k.errorText(err, c.hub.opts.EnableDetailedErrors))
	case k.reply != nil:
		writer = c.reply(k.reply)
	}
	if c.hub.behind.Load() {
		c.hub.behind.Store(false)
		runtime.Gosched()
	}
	return writer
}

// run calls the method and turns a panic into an error.
func (c *conn) run(ctx context.Context, k *call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.hub.opts.Logger.Error("a method panicked", slog.String("target", k.target), slog.String("conn", c.id),
				slog.Any("err", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	return k.method.run(ctx, k, c.hub.filters)
}

// fail answers a call with an error, if it wants an answer.
func (c *conn) fail(in *invocation, text string) (writer bool) {
	if len(in.message.InvocationID) == 0 {
		return false
	}
	m := c.hub.replyMessage()
	m.Reset(c.protocol.AppendError(m.Buffer(), view(in.message.InvocationID), text), c.protocol.Binary())
	c.hub.track(m)
	return c.reply(m)
}
