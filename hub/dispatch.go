package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// yieldAbove is the length of a receiver's queue from which a sender gives the
// writers a turn before it goes on.
const yieldAbove = 128

// An invocation is one call of a client, with a copy of its record. It is
// reused after the call.
type invocation struct {
	record  []byte
	message protocol.Message
	ctx     *callContext
	beside  bool        // runs beside the others: a stream in either direction
	uploads []*incoming // the client's streams, in the order of the parameters
	refusal string      // answered instead of being run
}

// calls is a connection's queue of calls and those that run. An invoker exists
// only while calls are queued. Streams take no invoker: each starts, on a
// goroutine of its own, once every call before it has.
type calls struct {
	mu        sync.Mutex
	queue     []*invocation
	active    []*invocation
	bytes     int // of the queue
	invokers  int
	beside    int // streams queued and running
	ended     int // streams whose completion has no place in the outbound queue yet
	uploading int // of both, plain calls with an upload
	lent      int // methods that run on without the slot they gave back
	closed    bool
	connected chan struct{} // closed when OnConnected is over; nil from then on
	accepted  bool          // OnConnected succeeded
	room      chan struct{} // not nil while the reader waits
}

// connect is the connect step, ahead of every call: it subscribes the
// connection's own channels, runs OnConnected and goes on as the first invoker.
func (c *conn) connect() {
	c.hub.relay.subscribeOwn(c)
	returned := false
	defer func() {
		if !returned {
			go c.serveCalls(errors.New("OnConnected ended its goroutine")) // which was counted in running
		}
	}()
	err := c.hub.runConnected(c)
	returned = true
	c.serveCalls(err)
}

// serveCalls is what follows OnConnected.
func (c *conn) serveCalls(err error) {
	if err != nil {
		c.awaitStart()
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

// Bounds of awaitStart.
const (
	startLook   = 10 * time.Millisecond
	startWait   = 3 * time.Second        // for the first ping
	startAnswer = 250 * time.Millisecond // for that ping's answer to arrive
)

// awaitStart waits, within bounds, until a client of an event stream has
// started. The official JavaScript client posts its first ping while it starts
// and waits for the answer. A Close that comes in the meantime is lost on it:
// either the ping finds no connection any more, and start fails with that, or
// start succeeds and nobody hears of the end.
func (c *conn) awaitStart() {
	if c.transport.Kind() != transport.ServerSentEvents {
		return
	}
	look := time.NewTicker(startLook)
	defer look.Stop()
	late := time.NewTimer(startWait)
	defer late.Stop()
	for !c.pinged.Load() {
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
	answered := time.NewTimer(startAnswer)
	defer answered.Stop()
	select {
	case <-answered.C:
	case <-c.ctx.Done():
	}
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
	in.ctx = &callContext{Context: c.ctx, conn: c}
	in.beside = in.message.Type == protocol.StreamInvocation || len(in.message.StreamIDs) > 0
	size := in.size()
	q.mu.Lock()
	if in.beside {
		q.admit(c, in)
	}
	for !q.closed && c.full(in, size) {
		c.awaitCalls(nil)
	}
	if q.closed {
		q.mu.Unlock()
		c.hub.recycle(in)
		return
	}
	if in.beside {
		q.beside++
		if in.message.Type == protocol.Invocation {
			q.uploading++
		}
		c.openUploads(in)
		if q.connected == nil && len(q.queue) == 0 {
			q.startBeside(c, in)
			q.mu.Unlock()
			return
		}
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

// progress wakes whoever waits for the next step of the calls; q.mu is held.
func (q *calls) progress() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// full reports whether a call must wait for a place in the queue, or a stream
// for a client that does not read how its last ones ended; q.mu is held.
func (c *conn) full(in *invocation, size int) bool {
	q := &c.calls
	return len(q.queue) >= c.hub.opts.InvocationQueue || len(q.queue) > 0 && q.bytes+size > maxQueuedCallBytes ||
		in.beside && q.ended >= c.hub.opts.MaximumStreamsPerConnection
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
// time of a close to be run. Streams to the client have lost their reader.
func (c *conn) finishCalls() {
	c.abandonUploads(ErrClosedByClient)
	until := time.Now().Add(c.hub.opts.CloseTimeout) // before the timer, which fires only once
	expired := time.NewTimer(c.hub.opts.CloseTimeout)
	defer expired.Stop()
	q := &c.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.invokers+q.lent+q.uploading > 0 && !q.closed && c.ctx.Err() == nil && time.Now().Before(until) {
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
// writer, which spares starting one; from then on it is no invoker. Neither is
// one whose method has given back its slot.
func (c *conn) invokeQueued() { c.invokeAfter(nil) }

// invokeAfter is invokeQueued behind a call that has been answered.
func (c *conn) invokeAfter(done *invocation) {
	var running *invocation
	defer func() {
		if running != nil { // its method has ended the goroutine
			c.running.Add(1)
			go c.succeed(running)
		}
		c.running.Done()
	}()
	writer := false
	for {
		in := c.calls.next(c, done)
		if done != nil {
			c.hub.recycle(done)
		}
		if in == nil {
			break
		}
		if writer { // the next call may take its time
			go c.write()
		}
		running = in
		writer = c.call(in)
		done, running = in, nil
	}
	if writer {
		c.writeQueue()
	}
}

// succeed goes on for an invoker whose method has ended its goroutine.
func (c *conn) succeed(in *invocation) {
	if c.exited(in) {
		go c.write()
	}
	c.invokeAfter(in)
}

// exited answers a call whose method has ended its goroutine (runtime.Goexit).
func (c *conn) exited(in *invocation) (writer bool) {
	target := string(in.message.Target)
	c.hub.stats.failed.Add(1)
	c.hub.opts.Logger.Error("a method ended its goroutine", slog.String("target", target), slog.String("conn", c.id))
	return c.fail(in, "An unexpected error occurred invoking '"+target+"' on the server.")
}

// next ends the call that an invoker has done, if any, and returns the one to
// run next; nil ends the invoker. Streams whose turn it is are started.
func (q *calls) next(c *conn, done *invocation) *invocation {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done != nil {
		q.forget(done)
		if !done.ctx.holdsSlot {
			q.lent--
			q.progress()
			return nil
		}
		done.ctx.holdsSlot = false
	}
	over := q.closed || c.closing.Load() != 0 // teardown drops what is left
	if !over {
		q.startHead(c)
	}
	if over || len(q.queue) == 0 {
		q.invokers--
		if q.invokers == 0 {
			q.progress()
			if len(q.active) == 0 {
				q.queue, q.active = nil, nil
			}
		}
		return nil
	}
	in := q.pop()
	in.ctx.holdsSlot = true
	q.active = append(q.active, in)
	q.startHead(c)
	q.progress()
	return in
}

// pop takes the head off the queue; q.mu is held.
func (q *calls) pop() *invocation {
	in := q.queue[0]
	q.bytes -= in.size()
	n := copy(q.queue, q.queue[1:])
	q.queue[n] = nil
	q.queue = q.queue[:n]
	return in
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

// cancelCall ends the context of the queued and running calls with that id:
// several there are when one has just been answered or refused.
func (c *conn) cancelCall(id []byte) {
	q := &c.calls
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range [][]*invocation{q.active, q.queue} {
		for _, in := range list {
			if len(id) > 0 && string(in.message.InvocationID) == string(id) {
				in.ctx.cancel()
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
	ctx := in.ctx
	defer ctx.end()
	defer c.closeUploads(in)
	if in.refusal != "" {
		c.hub.stats.failed.Add(1)
		return c.fail(in, in.refusal)
	}
	m := c.hub.method(in.message.Target)
	c.hub.stats.invocations.Add(1)
	if m == nil {
		c.calls.end(in)
		c.hub.stats.failed.Add(1)
		return c.fail(in, unknownMethod(k.target))
	}
	k.method, k.target = m, m.target
	err := c.run(ctx, &k)
	c.calls.end(in)
	switch {
	case k.unencodable != nil:
		c.end(ErrUnencodable.because(k.unencodable))
	case err != nil && m.streaming && ctx.cancelled():
		k.complete()
		writer = c.reply(k.reply)
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
