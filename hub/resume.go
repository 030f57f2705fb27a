package hub

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// ackBytes is how many bytes a client may send before it gets an Ack without
// waiting for the next tick.
const ackBytes = 16 << 10

// A resumption is what a connection with stateful reconnects has besides: the
// records that the client has not acknowledged, so that they can be sent again
// on another socket, and the numbers of those received (HubProtocol.md,
// "Ack and Sequence"; where that text and SignalR's code differ, the code).
//
// Both sides count the records of types 1 to 5, from 1. Numbers are not on the
// wire. The fields from sent on are guarded by the connection's out.mu.
type resumption struct {
	transport transport.ResumableConn // fixed
	limit     int                     // fixed: bytes sent and not acknowledged

	// owned by the reader
	counter int64 // number of the last record on this socket
	unacked int   // bytes received since the last Ack

	received atomic.Int64 // number of the last record that was handled
	acked    atomic.Int64 // of those, the last that the client was told

	sent     []*transport.Message // handed to the transport, oldest first
	bytes    int                  // of sent
	released int64                // number of the last record that is kept no longer
	acks     int64                // number of the last record that the client has acknowledged
	rewound  int                  // records at the head of the queue that were sent before
	resuming bool                 // the writer owes a Sequence, ahead of everything
	ackDue   bool                 // the writer owes an Ack, next
	detached bool                 // no socket: the writer must not start
	full     time.Duration        // since when sent is over its limit, in the transport's age; 0 if it is not
	stopped  chan struct{}        // not nil while the reader waits for the writer's end
}

// newResumption agrees on stateful reconnects if client and transport do.
func (h *Hub) newResumption(t transport.Conn, version int) *resumption {
	r, ok := t.(transport.ResumableConn)
	if !ok || version < resumingVersion {
		return nil
	}
	r.AllowResume(true)
	return &resumption{transport: r, limit: h.opts.StatefulReconnectBufferSize}
}

// resumingVersion is the version of the hub protocols from which on stateful
// reconnects exist.
const resumingVersion = 2

// counted reports whether a message that is about to be written is one of those
// that both sides count. Everything but pings, probes, the handshake answer and
// a Close is.
func (c *conn) counted(m *transport.Message) bool {
	return c.out.greeted && !c.out.closed && !m.Control() && m != c.hub.pings[c.protocolIndex]
}

// keep remembers a record until it is acknowledged; out.mu is held. One that is
// sent again may have been acknowledged since.
func (r *resumption) keep(m *transport.Message) {
	if r.released < r.acks {
		r.released++
		return
	}
	m.Retain(1)
	r.sent = append(r.sent, m)
	r.bytes += m.Size()
}

// paused reports whether the writer must wait: for a socket, or for an Ack;
// out.mu is held.
func (r *resumption) paused() bool { return r.detached || r.bytes > r.limit }

// release drops what the client has acknowledged; out.mu is held. Records that
// are to be sent again are dropped only as long as no Sequence has named the
// first of them: the client counts what follows it.
func (r *resumption) release(o *outbound, number int64) {
	r.acks = max(r.acks, min(number, r.released+int64(len(r.sent)+r.rewound)))
	for r.released < r.acks && (len(r.sent) > 0 || r.resuming && r.rewound > 0) {
		r.released++
		if len(r.sent) > 0 {
			m := r.sent[0]
			r.sent[0] = nil
			r.sent = r.sent[1:]
			r.bytes -= m.Size()
			m.Release(1)
			continue
		}
		r.rewound--
		m := o.queue[o.head]
		o.queue[o.head] = nil
		o.head++
		o.bytes -= m.Size()
		m.Release(1)
	}
	if len(r.sent) == 0 {
		r.sent = nil
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	}
	if r.bytes <= r.limit {
		r.full = 0
	}
}

// rewind puts everything that was not acknowledged back at the head of the
// queue; out.mu is held and no writer runs.
func (r *resumption) rewind(o *outbound) {
	if len(r.sent) == 0 {
		return
	}
	queue := make([]*transport.Message, 0, len(r.sent)+o.length())
	queue = append(append(queue, r.sent...), o.queue[o.head:]...)
	clear(o.queue)
	o.queue, o.head = queue, 0
	o.bytes += r.bytes
	r.rewound += len(r.sent)
	r.sent, r.bytes, r.full = nil, 0, 0
}

// drop forgets everything; out.mu is held.
func (r *resumption) drop() {
	for _, m := range r.sent {
		m.Release(1)
	}
	r.sent, r.bytes, r.rewound, r.ackDue, r.resuming = nil, 0, 0, false, false
}

// stopResuming ends replacing sockets, as the connection ends, and reports
// whether there is one to say so on.
func (c *conn) stopResuming() (attached bool) {
	c.resume.transport.AllowResume(false)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return !c.resume.detached
}

// checkAcks applies the rules of time: the client hears what has arrived, and
// must itself acknowledge in time what it gets.
func (c *conn) checkAcks(age time.Duration) {
	r := c.resume
	c.out.mu.Lock()
	stuck := !r.detached && r.full != 0 && age-r.full > c.hub.opts.WriteTimeout
	c.out.mu.Unlock()
	if stuck {
		c.end(ErrSlowConsumer)
		return
	}
	c.sendAck()
}

// acknowledge takes an Ack of the client.
func (c *conn) acknowledge(number int64) {
	o := &c.out
	o.mu.Lock()
	c.resume.release(o, number)
	if o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
	start := (o.length() > 0 || o.final != 0) && c.claimWriter()
	o.mu.Unlock()
	if start {
		go c.write()
	}
}

// detach notes that the socket is lost; the reader calls it. Nothing is owed to
// time meanwhile but the transport's own.
func (c *conn) detach() {
	c.blocked.Store(true)
	c.out.mu.Lock()
	c.resume.detached = true
	c.out.mu.Unlock()
	c.hub.stats.detached.Add(1)
	c.hub.opts.Logger.Debug("socket lost, waiting for another", slog.String("conn", c.id))
}

// reattach goes on with another socket: the number of the first record to come
// goes ahead of everything, then whatever was not acknowledged, then what is
// new. The writer has seen the loss, or sees it now.
func (c *conn) reattach() {
	o, r := &c.out, c.resume
	o.mu.Lock()
	r.detached = true
	for o.writing {
		stopped := make(chan struct{})
		r.stopped = stopped
		o.mu.Unlock()
		<-stopped
		o.mu.Lock()
	}
	r.ackDue = false
	r.rewind(o)
	r.resuming = true
	o.mu.Unlock()
	r.transport.Resume()
	c.touch()
	c.blocked.Store(false)
	r.acked.Store(0) // the last Ack may have been lost
	o.mu.Lock()
	r.detached = false
	start := c.claimWriter()
	o.mu.Unlock()
	if start {
		go c.write()
	}
	c.hub.stats.resumed.Add(1)
	c.hub.opts.Logger.Debug("resumed on another socket", slog.String("conn", c.id))
}

// seen counts a record that has arrived and reports whether it was handled
// before, on a socket that is gone.
func (c *conn) seen(size int) bool {
	r := c.resume
	r.counter++
	r.unacked += size
	if r.counter <= r.received.Load() {
		return true
	}
	r.received.Store(r.counter)
	if r.unacked >= ackBytes {
		r.unacked = 0
		c.sendAck()
	}
	return false
}

// sendAck tells the client what has arrived, if it does not know. There is at
// most one Ack on its way to the writer, which puts in the newest number.
func (c *conn) sendAck() {
	r, o := c.resume, &c.out
	if r.acked.Load() == r.received.Load() {
		return
	}
	o.mu.Lock()
	if o.closed || r.detached {
		o.mu.Unlock()
		return
	}
	r.ackDue = true
	start := c.claimWriter()
	o.mu.Unlock()
	if start {
		go c.write()
	}
}

// appendOwed takes what goes ahead of the queue: the Sequence of a new socket,
// and an Ack; out.mu is held.
func (c *conn) appendOwed(batch []*transport.Message) []*transport.Message {
	o, r := &c.out, c.resume
	add := func(record []byte) {
		m := c.hub.newMessage(record, c.protocol.Binary())
		o.bytes += m.Size()
		batch = append(batch, m)
	}
	if r.resuming {
		r.resuming = false
		add(c.protocol.AppendSequence(transport.BeginMessage(32), r.released+1))
	}
	if r.ackDue {
		r.ackDue = false
		number := r.received.Load()
		r.acked.Store(number)
		add(c.protocol.AppendAck(transport.BeginMessage(32), number))
	}
	return batch
}

// sequence takes the number of the first record that follows.
func (c *conn) sequence(number int64) error {
	r := c.resume
	if number > r.received.Load()+1 {
		return ErrProtocol.because(&wireError{
			name: "InvalidOperationException",
			text: "Sequence ID greater than amount of messages we've received.",
		})
	}
	r.counter = number - 1
	return nil
}

// counts reports whether a type of record is numbered.
func counts(t protocol.Type) bool {
	return t >= protocol.Invocation && t <= protocol.CancelInvocation
}
