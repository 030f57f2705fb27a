package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A poll is one request that waits for data.
type poll struct {
	control  *http.ResponseController
	wake     chan struct{} // room for 1: look again
	left     chan struct{} // closed when its place is free
	replaced bool          // guarded by the connection's mu
	writing  bool          // guarded by the connection's mu
}

// setPollHeaders keeps every answer to a poll out of caches.
func setPollHeaders(h http.Header) {
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Pragma", "no-cache")
	h.Set("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")
}

// serve answers every poll but the first.
func (p *pollConn) serve(w http.ResponseWriter, r *http.Request) (Refusal, *StatusError) {
	me := &poll{control: http.NewResponseController(w), wake: make(chan struct{}, 1), left: make(chan struct{})}
	_ = me.control.SetReadDeadline(time.Time{}) // of the HTTP server, which would end the request
	me.extend()                                 // on HTTP/2 it strikes while nothing is written, too
	p.rec.inbox.note()
	if !p.enter(r.Context(), me) {
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	defer p.exit(me)
	timeout := p.rec.endpoint.opts.PollTimeout
	if r.Context().Value(forwardedKey{}) != nil {
		timeout = min(timeout, p.rec.endpoint.forwardedPoll)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		batch, size, budget, end := p.look(r.Context(), me)
		switch {
		case batch != nil:
			err := p.allow(me, budget)
			if err == nil {
				err = me.write(w, batch, size, r.ProtoMajor > 1)
			}
			if err != nil {
				p.rec.inbox.drop(err)
			}
			p.mu.Lock()
			me.writing = false
			p.mu.Unlock()
			me.extend() // HTTP/2 resets the stream otherwise
			p.sent <- err
			return 0, nil
		case end && me.wasReplaced(p):
			me.extend()
			writeGone(w)
			return 0, nil
		case end:
			me.extend()
			return p.gone(w)
		}
		select {
		case <-me.wake:
		case <-p.rec.inbox.over:
		case <-timer.C:
			me.extend()
			writeEmpty(w, http.StatusOK)
			return 0, nil
		case <-r.Context().Done():
			return 0, nil
		}
	}
}

// gone answers a poll of a connection that is over.
func (p *pollConn) gone(w http.ResponseWriter) (Refusal, *StatusError) {
	first := p.rec.tell()
	p.rec.inbox.end(io.EOF) // after SendClose: the peer has answered
	if !first {
		return RefusedSpentID, errUnknownID()
	}
	writeGone(w)
	return 0, nil
}

// enter makes the poll the open one, in place of an older one, for which it
// may have to wait. Only one poll at a time may: it reports false if another
// does.
func (p *pollConn) enter(ctx context.Context, me *poll) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newcomer {
		return false
	}
	p.gap.Stop()
	if old := p.holder; old != nil {
		p.newcomer = true
		old.replaced = true
		signal(old.wake)
		p.mu.Unlock()
		<-old.left // soon, or when its write is over
		p.mu.Lock()
		p.newcomer = false
	}
	p.holder = me
	return true
}

// exit frees the poll's place.
func (p *pollConn) exit(me *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holder = nil
	p.left = time.Now()
	close(me.left)
	if !p.newcomer && !p.rec.inbox.ended() {
		p.gap.Reset(p.patience())
	}
}

// look says what the poll has to answer: a batch, which it has taken then, or
// that the end has come for it, or nothing yet.
func (p *pollConn) look(ctx context.Context, me *poll) (batch []*Message, size int, budget time.Duration, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case me.replaced || p.rec.inbox.ended():
		return nil, 0, 0, true
	case p.batch != nil && ctx.Err() == nil:
		batch, p.batch = p.batch, nil
		me.writing = true
		return batch, p.size, p.budget, false
	default:
		return nil, 0, 0, p.closing && p.batch == nil
	}
}

func (me *poll) wasReplaced(p *pollConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return me.replaced
}

// extend gives an answer without data all the time it needs, whatever the HTTP
// server has allowed for the request: it fits into any buffer, and a deadline
// would be that of the next request, too.
func (me *poll) extend() { _ = me.control.SetWriteDeadline(time.Time{}) }

// allow gives the poll's answer its time, unless CloseNow was called.
func (p *pollConn) allow(me *poll, budget time.Duration) error {
	p.mu.Lock() // or it would take the place of CloseNow's
	defer p.mu.Unlock()
	if p.rec.inbox.ended() {
		return net.ErrClosed
	}
	_ = me.control.SetWriteDeadline(time.Now().Add(budget)) // a ResponseWriter without deadlines has none
	return nil
}

// write answers with the records of a batch.
func (me *poll) write(w http.ResponseWriter, batch []*Message, size int, multiplexed bool) error {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(http.StatusOK)
	for _, m := range batch {
		if err := writePayload(w, m.Payload(), multiplexed); err != nil {
			return err
		}
	}
	if err := me.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// writePayload writes bytes that others may use again as soon as it returns.
// After an error HTTP/2 may still be reading from what it was given, unless
// that fits into its buffer (4 KiB), which it copies into.
func writePayload(w io.Writer, b []byte, multiplexed bool) error {
	const copied = 2 << 10
	for multiplexed && len(b) > copied {
		if _, err := w.Write(b[:copied]); err != nil {
			return err
		}
		b = b[copied:]
	}
	_, err := w.Write(b)
	return err
}

// writeGone tells a client of long polling that nothing more will come.
func writeGone(w http.ResponseWriter) { writeEmpty(w, http.StatusNoContent) }
