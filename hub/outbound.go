package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

const (
	// inlineOutbound messages wait without a slice of their own.
	inlineOutbound = 2

	// keepOutbound is the longest queue whose slice an idle connection keeps.
	keepOutbound = 16

	// writeBatch and writeBatchBytes are how many messages and bytes one
	// write takes at most; a single larger message is a batch of its own.
	writeBatch      = 256
	writeBatchBytes = 64 << 10

	// replyShare of the limits may be full before a connection's own replies
	// wait, so that a client that does not read its answers is slowed down
	// rather than dropped.
	replyShare = 4
)

// An outbound is the queue of messages on their way to one client. Its writer
// exists only while something is queued: the enqueue that finds the queue idle
// starts it.
type outbound struct {
	mu      sync.Mutex
	queue   []*transport.Message
	head    int // queue[:head] has been taken by the writer
	bytes   int // queued and being written
	writing bool
	greeted bool          // the writer has the first message, the handshake answer
	closed  bool          // takes nothing more
	final   int           // status of the close that follows the queue; 0 none
	drained chan struct{} // not nil while a reply waits for room
	inline  [inlineOutbound]*transport.Message
}

func (o *outbound) length() int { return len(o.queue) - o.head }

// push appends m; o.mu is held.
func (o *outbound) push(m *transport.Message) {
	if o.queue == nil {
		o.queue = o.inline[:0]
	}
	if len(o.queue) == cap(o.queue) && 2*o.head >= len(o.queue) {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
	if len(o.queue) == inlineOutbound && cap(o.queue) == inlineOutbound {
		o.queue = append(make([]*transport.Message, 0, 4*inlineOutbound), o.queue...)
		clear(o.inline[:])
	}
	o.queue = append(o.queue, m)
	o.bytes += m.Size()
}

// take moves up to a batch of messages into batch; o.mu is held. The time for
// a write is counted for each batch, so a batch is no more than a slow but
// steady client can take in that time.
func (c *conn) take(batch []*transport.Message) []*transport.Message {
	if c.resume != nil {
		return c.takeKeeping(batch)
	}
	o := &c.out
	n, size := 0, 0
	for n < min(o.length(), cap(batch)) {
		size += o.queue[o.head+n].Size()
		if n > 0 && size > writeBatchBytes {
			break
		}
		n++
	}
	batch = append(batch[:0], o.queue[o.head:o.head+n]...)
	clear(o.queue[o.head : o.head+n])
	o.head += n
	o.greeted = true
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	}
	return batch
}

// takeKeeping is take for stateful reconnects: it keeps what it takes until the
// client has acknowledged it, and takes no more while too much is kept.
func (c *conn) takeKeeping(batch []*transport.Message) []*transport.Message {
	o, r := &c.out, c.resume
	size := 0
	batch = c.appendOwed(batch[:0])
	for o.length() > 0 && len(batch) < cap(batch) && (!r.paused() || o.closed) {
		m := o.queue[o.head]
		size += m.Size()
		if len(batch) > 0 && size > writeBatchBytes {
			break
		}
		batch = append(batch, m)
		o.queue[o.head] = nil
		o.head++
		again := r.rewound > 0
		if again {
			r.rewound--
		}
		if again || c.counted(m) {
			r.keep(m)
		}
		o.greeted = true
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	}
	if r.bytes > r.limit && r.full == 0 {
		r.full = max(1, c.transport.Age())
	}
	return batch
}

// enqueue queues a message whose reference the caller has counted already and
// says how many then wait, and whether it took the message. It never waits: a
// connection without room is ended with ErrSlowConsumer.
func (c *conn) enqueue(m *transport.Message) (queued int, took bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return 0, false
	}
	if c.hub.overfull(o, m.Size()) {
		o.mu.Unlock()
		c.end(ErrSlowConsumer)
		return 0, false
	}
	o.push(m)
	queued = o.length()
	start := c.claimWriter()
	o.mu.Unlock()
	if start {
		go c.write()
	}
	return queued, true
}

// overfull decides whether one more message of size bytes is too much for o.
func (h *Hub) overfull(o *outbound, size int) bool {
	if o.bytes == 0 {
		return false // whatever its size, a message that waits for nobody is taken
	}
	if o.length() >= h.opts.OutboundMessages || o.bytes+size > h.opts.OutboundBytes {
		return true
	}
	return h.queuedBytes.Load() > int64(h.opts.OutboundTotalBytes) && o.bytes+size > h.opts.OutboundBytes/replyShare/replyShare
}

// reply queues an answer to the client's own call, whose message is tracked
// already. While too much waits for this client it waits too, until the writer
// has caught up or the connection has ended. It reports whether the caller has
// become the writer and must run or start writeQueue.
func (c *conn) reply(m *transport.Message) (writer bool) {
	writer, _ = c.replyWithin(c.ctx, m, c.hub.opts.OutboundMessages/replyShare, c.hub.opts.OutboundBytes/replyShare)
	return writer
}

// replyWithin is reply that waits while more messages or bytes are queued, and
// no longer than ctx. It also reports whether it took the message.
func (c *conn) replyWithin(ctx context.Context, m *transport.Message, messages, bytes int) (writer, took bool) {
	o := &c.out
	m.Retain(1)
	o.mu.Lock()
	for !o.closed && (o.length() > messages || o.bytes > bytes) {
		if o.drained == nil {
			o.drained = make(chan struct{})
		}
		drained := o.drained
		o.mu.Unlock()
		select {
		case <-drained:
		case <-ctx.Done():
			m.Release(1)
			return false, false
		}
		o.mu.Lock()
	}
	if o.closed {
		o.mu.Unlock()
		m.Release(1)
		return false, false
	}
	o.push(m)
	writer = c.claimWriter()
	o.mu.Unlock()
	return writer, true
}

// claimWriter marks the writer as there and says whether it has to be started;
// out.mu is held. ServeConn waits for the writer.
func (c *conn) claimWriter() bool {
	if c.out.writing || c.resume != nil && !c.mayWrite() {
		return false
	}
	c.out.writing = true
	c.running.Add(1)
	return true
}

// mayWrite reports whether a writer would get anything out; out.mu is held.
func (c *conn) mayWrite() bool {
	r := c.resume
	return !r.detached && (r.resuming || r.ackDue || c.out.closed || !r.paused())
}

// writeQueue is the writer: it writes what is queued, many messages at a time,
// until nothing is left.
func (c *conn) writeQueue() {
	defer c.running.Done()
	batch := c.hub.batches.Get().(*[writeBatch]*transport.Message)
	defer c.hub.batches.Put(batch)
	o := &c.out
	for {
		o.mu.Lock()
		if c.resume != nil && !c.mayWrite() {
			c.stopWriting()
			o.mu.Unlock()
			return
		}
		if o.length() == 0 && (c.resume == nil || !c.resume.resuming && !c.resume.ackDue) {
			status := o.final
			o.final = 0
			if status == 0 {
				c.stopWriting()
				if cap(o.queue) > keepOutbound {
					o.queue = nil
				}
			}
			o.mu.Unlock()
			if status == 0 {
				return
			}
			if c.transport.SendClose(status, time.Now().Add(c.hub.opts.CloseTimeout)) != nil {
				c.transport.CloseNow()
			}
			continue
		}
		messages := c.take(batch[:0])
		timeout := c.hub.opts.WriteTimeout
		if o.closed {
			timeout = c.hub.opts.CloseTimeout
		}
		o.mu.Unlock()

		err := c.transport.Send(messages, time.Now().Add(timeout))
		size := 0
		for i, m := range messages {
			size += m.Size()
			m.Release(1)
			messages[i] = nil
		}
		o.mu.Lock()
		o.bytes -= size
		if o.drained != nil {
			close(o.drained)
			o.drained = nil
		}
		o.mu.Unlock()
		if errors.Is(err, transport.ErrDetached) && c.resume != nil {
			c.lost()
		} else if errors.Is(err, transport.ErrClosing) {
			c.abandon() // the reader knows why
		} else if err != nil {
			c.writeFailed(err)
		} else {
			c.hub.stats.sent.Add(uint64(len(messages)))
		}
	}
}

// stopWriting marks the writer as gone; out.mu is held.
func (c *conn) stopWriting() {
	c.out.writing = false
	if r := c.resume; r != nil && r.stopped != nil {
		close(r.stopped)
		r.stopped = nil
	}
}

// lost notes that what was written last may not have arrived: it is kept, and
// sent again on the next socket. Without a next one it never is.
func (c *conn) lost() {
	c.out.mu.Lock()
	c.resume.detached = true
	closed := c.out.closed
	c.out.mu.Unlock()
	if closed {
		c.abandon()
		c.transport.CloseNow()
	}
}

// finish stops the queue: nothing more is taken, last follows what is queued
// (or replaces it, when the client does not read anyway), then the transport's
// close.
func (c *conn) finish(last *transport.Message, status int, dropQueued bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	if dropQueued {
		var hello *transport.Message // nothing may come before it, not even the Close
		if !o.greeted && o.length() > 0 {
			hello = o.queue[o.head]
			hello.Retain(1)
		}
		c.discard()
		if hello != nil {
			o.push(hello)
		}
	}
	if last != nil {
		last.Retain(1)
		o.push(last)
	}
	o.final = status
	start := c.claimWriter()
	o.mu.Unlock()
	if start {
		go c.write()
	}
}

// abandon stops the queue and counts what nobody will read.
func (c *conn) abandon() {
	o := &c.out
	o.mu.Lock()
	o.closed = true
	o.final = 0
	c.discard()
	o.mu.Unlock()
}

// discard drops what is queued; out.mu is held.
func (c *conn) discard() {
	o := &c.out
	dropped := o.length()
	for _, m := range o.queue[o.head:] {
		o.bytes -= m.Size()
		m.Release(1)
	}
	clear(o.queue)
	o.queue, o.head = nil, 0
	if c.resume != nil {
		c.resume.drop()
	}
	if dropped > 0 {
		c.hub.stats.dropped.Add(uint64(dropped))
	}
}
