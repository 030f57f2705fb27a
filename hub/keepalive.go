package hub

import (
	"context"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

const (
	maxTick = time.Second
	minTick = 5 * time.Millisecond
)

// keepAlive looks at every connection once a tick: it pings, ends the silent
// and drops those that take too long to close. One timer serves them all.
func (h *Hub) keepAlive(ctx context.Context) {
	tick := min(maxTick, h.opts.KeepAliveInterval/4, h.opts.ClientTimeoutInterval/4, h.opts.CloseTimeout/4)
	ticker := time.NewTicker(max(minTick, tick))
	defer ticker.Stop()
	var conns []*conn
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			conns = h.registry.all.snapshot(conns[:0])
			for _, c := range conns {
				h.check(c)
			}
			clear(conns)
		}
	}
}

// check applies the rules of time to one connection.
func (h *Hub) check(c *conn) {
	age := c.transport.Age()
	if closing := time.Duration(c.closing.Load()); closing != 0 {
		if age-closing >= h.opts.CloseTimeout {
			c.transport.CloseNow()
		}
		return
	}
	if c.resume != nil {
		c.checkAcks(age)
	}
	if end := c.expires.Load(); end != 0 && time.Now().UnixNano() >= end {
		c.end(ErrAuthenticationExpired)
		return
	}
	// The ping goes first: a probe in its way would count as keeping alive,
	// and clients do not see one.
	if age-c.lastPing >= h.opts.KeepAliveInterval && c.transport.Kind() != transport.LongPolling {
		c.lastPing = age
		c.sendIdle(h.pings[c.protocolIndex])
	}
	blocked := c.blocked.Load() // before lastRecord: the reader sets them the other way round
	silent := age - time.Duration(c.lastRecord.Load())
	switch {
	case blocked: // nothing is read, not even the answer to a probe
	case !c.pinged.Load():
		h.probe(c, age)
	case silent > h.opts.ClientTimeoutInterval:
		c.end(ErrClientTimeout)
	}
}

// probe asks a client that has never pinged, and whose silence therefore
// proves nothing, below the hub: every living WebSocket answers a ping. While
// something is being written to it nothing is asked and nothing concluded; a
// write that takes too long ends the connection by itself.
func (h *Hub) probe(c *conn, age time.Duration) {
	if c.transport.Kind() != transport.WebSockets || !c.idle() {
		return
	}
	const half = 2 // of the time is for silence, half for the answer
	alive := max(c.transport.LastReceived(), time.Duration(c.lastRecord.Load()))
	switch asked := c.lastProbe > alive; {
	case asked && age-c.lastProbe >= h.opts.ClientTimeoutInterval/half:
		c.end(ErrPeerGone)
	case !asked && age-alive >= h.opts.ClientTimeoutInterval/half:
		if c.sendIdle(transport.NewProbe()) {
			c.lastProbe = age
		}
	}
}

// idle reports whether nothing waits to be written.
func (c *conn) idle() bool {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return !c.out.closed && !c.out.writing
}

// sendIdle queues a message unless others wait already: those keep the
// connection alive just as well. It reports whether it did.
func (c *conn) sendIdle(m *transport.Message) bool {
	if !c.idle() {
		return false
	}
	m.Retain(1)
	_, took := c.enqueue(m)
	if !took {
		m.Release(1)
	}
	return took
}
