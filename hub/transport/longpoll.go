package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// errNoPoll is what Receive returns when a client has stopped polling.
var errNoPoll = errors.New("transport: no poll came in time")

// A pollConn is a Conn on long polling. What it sends waits until a poll takes
// it: Send lends its batch to the poll, which writes it from where it is.
type pollConn struct {
	// fixed
	rec    *record
	start  time.Time
	remote string
	sent   chan error // room for 1: what became of the batch that a poll has taken

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
	p := &pollConn{rec: rec, start: time.Now(), remote: r.RemoteAddr, sent: make(chan error, 1)}
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

func (p *pollConn) ID() string         { return p.rec.id }
func (p *pollConn) Kind() Kind         { return LongPolling }
func (p *pollConn) Binary() bool       { return true }
func (p *pollConn) RemoteAddr() string { return p.remote }
func (p *pollConn) Age() time.Duration { return time.Since(p.start) }

// LastReceived counts polls, too.
func (p *pollConn) LastReceived() time.Duration { return p.rec.inbox.lastReceived(p.start) }

func (p *pollConn) Receive() ([]byte, error) {
	piece, err := p.rec.inbox.receive()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("transport: receive: %w", err)
	}
	return piece, err
}

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

// serve answers every poll but the first.
func (p *pollConn) serve(w http.ResponseWriter, r *http.Request) (Refusal, *StatusError) {
	me := &poll{control: http.NewResponseController(w), wake: make(chan struct{}, 1), left: make(chan struct{})}
	_ = me.control.SetReadDeadline(time.Time{}) // of the HTTP server, which would end the request
	p.rec.inbox.note()
	if !p.enter(r.Context(), me) {
		return RefusedIDInUse, &StatusError{Code: http.StatusConflict}
	}
	defer p.exit(me)
	timer := time.NewTimer(p.rec.endpoint.opts.PollTimeout)
	defer timer.Stop()
	for {
		batch, size, budget, end := p.look(r.Context(), me)
		switch {
		case batch != nil:
			err := me.write(w, batch, size, budget, r.ProtoMajor > 1)
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

// write answers with the records of a batch.
func (me *poll) write(w http.ResponseWriter, batch []*Message, size int, budget time.Duration, multiplexed bool) error {
	_ = me.control.SetWriteDeadline(time.Now().Add(budget)) // a ResponseWriter without deadlines has none
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
