package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// errNoPoll is what Receive returns when a client has stopped polling.
var errNoPoll = errors.New("transport: no poll came in time")

// A pollConn is a Conn on long polling. What it sends waits until a poll takes
// it: Send lends its batch to the poll, which writes it from where it is.
type pollConn struct {
	posted

	// fixed
	sent chan error // room for 1: what became of the batch that a poll has taken

	mu       sync.Mutex
	holder   *poll         // guarded by mu: the poll that is open; nil between two
	newcomer bool          // guarded by mu: another poll waits for the holder's place
	batch    []*Message    // guarded by mu: what Send has for a poll that has not taken it
	size     int           // guarded by mu: of batch, in bytes
	budget   time.Duration // guarded by mu: for writing batch
	closing  bool          // guarded by mu: SendClose was called
	left     time.Time     // guarded by mu: when the last poll left
	gap      *time.Timer   // guarded by mu: runs between two polls
}

var _ Conn = (*pollConn)(nil)

// poll answers a poll: the first one begins the connection.
func (e *Endpoint) poll(w http.ResponseWriter, r *http.Request, rec *record) (Refusal, *StatusError) {
	if !rec.join() {
		if _, kind := rec.state(); kind == LongPolling && rec.tell() {
			writeGone(w)
			return 0, nil
		}
		return RefusedSpentID, errUnknownID()
	}
	defer rec.quit()
	if rec.attach(LongPolling) {
		return e.openPolling(w, r, rec)
	}
	rec.mu.Lock()
	p, kind := rec.poll, rec.kind
	rec.mu.Unlock()
	switch {
	case kind != LongPolling:
		return RefusedTransport, &StatusError{Code: http.StatusBadRequest, Text: textOtherWay}
	case p == nil: // its first poll is being let in
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	if why, refused := e.refreshed(r, rec); refused != nil {
		return why, refused
	}
	return p.serve(w, r)
}

// openPolling begins a connection and answers its first poll at once.
func (e *Endpoint) openPolling(w http.ResponseWriter, r *http.Request, rec *record) (Refusal, *StatusError) {
	serve, why, refused := e.admit(r, rec, LongPolling)
	if refused != nil {
		return why, refused
	}
	p := &pollConn{posted: newPosted(rec, r), sent: make(chan error, 1)}
	p.left = p.start
	p.gap = time.AfterFunc(e.opts.DisconnectTimeout, p.expire)
	rec.inbox.note()
	rec.begin(p, nil)
	e.accepted.Add(1)
	go e.runPolling(p, serve) // until leave, which Wait waits for
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	return 0, nil
}

// runPolling is the reader of a connection.
func (e *Endpoint) runPolling(p *pollConn, serve func(Conn)) {
	defer e.leave()
	defer p.rec.finish()
	defer p.finish()
	serve(p)
}

// finish frees the requests of a connection whose serve has returned.
func (p *pollConn) finish() {
	p.CloseNow()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gap.Stop()
}

func (p *pollConn) Kind() Kind   { return LongPolling }
func (p *pollConn) Binary() bool { return true }

// Send implements Conn. The time until deadline is for the write; the wait for
// a poll is bounded by DisconnectTimeout.
func (p *pollConn) Send(batch []*Message, deadline time.Time) error {
	err := p.send(batch, time.Until(deadline))
	if err != nil {
		return fmt.Errorf("transport: send: %w", err)
	}
	return nil
}

func (p *pollConn) send(batch []*Message, budget time.Duration) error {
	if budget <= 0 {
		p.CloseNow()
		return os.ErrDeadlineExceeded
	}
	size := payloadSize(batch)
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		return ErrClosing
	}
	if size == 0 {
		p.mu.Unlock()
		return nil
	}
	p.batch, p.size, p.budget = batch, size, budget
	p.wakeHolder()
	p.mu.Unlock()
	select {
	case err := <-p.sent:
		return err
	case <-p.rec.inbox.over:
	}
	p.mu.Lock()
	taken := p.batch == nil
	p.batch = nil
	closing := p.closing
	p.mu.Unlock()
	switch {
	case taken: // and must not be touched any more when Send returns
		return <-p.sent
	case closing:
		return ErrClosing
	}
	return net.ErrClosed
}

// payloadSize is how many bytes of a batch are for other transports than
// WebSockets.
func payloadSize(batch []*Message) (n int) {
	for _, m := range batch {
		n += len(m.Payload())
	}
	return n
}

// wakeHolder makes the open poll look again. mu is held.
func (p *pollConn) wakeHolder() {
	if p.holder != nil {
		signal(p.holder.wake)
	}
}

// SendClose implements Conn: the next poll is answered 204.
func (p *pollConn) SendClose(int, time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil
	}
	p.closing = true
	p.wakeHolder()
	if p.holder == nil && !p.newcomer {
		p.left = time.Now() // what was sent last has been taken just now
		p.gap.Reset(p.patience())
	}
	return nil
}

// patience is how long the next poll may take to come. mu is held.
func (p *pollConn) patience() time.Duration {
	opts := &p.rec.endpoint.opts
	if p.closing {
		return min(opts.WebSocketCloseTimeout, opts.DisconnectTimeout)
	}
	return opts.DisconnectTimeout
}

// expire ends a connection whose client does not poll any more.
func (p *pollConn) expire() {
	p.mu.Lock()
	gone := p.holder == nil && !p.newcomer && time.Since(p.left) >= p.patience()
	closing := p.closing
	p.mu.Unlock()
	if !gone {
		return
	}
	if !closing {
		p.rec.tell() // 404 if it comes back, so that it knows what it has missed
	}
	p.rec.inbox.end(errNoPoll)
}

// CloseNow implements Conn. A poll that is being written to is cut.
func (p *pollConn) CloseNow() {
	p.rec.inbox.drop(net.ErrClosed)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder != nil && p.holder.writing {
		_ = p.holder.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// delete is the client's polite end: Receive returns what came before, and an
// open poll is answered.
func (p *pollConn) delete() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.rec.inbox.end(io.EOF)
}

// delete ends a connection of long polling by its client's wish.
func (rec *record) delete() {
	rec.mu.Lock()
	p := rec.poll
	rec.mu.Unlock()
	if p != nil {
		p.delete()
		return
	}
	rec.inbox.end(io.EOF)
}
