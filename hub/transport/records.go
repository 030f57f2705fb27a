package transport

import (
	"crypto/hmac"
	"net/http"
	"sync"
	"time"
)

// maxPendingBytes bounds what waits, in bytes, for connections that were begun
// by a POST, all together: tokens cost nothing.
const maxPendingBytes = 32 << 20

// records are the connections of an endpoint that are more than one request:
// everything but plain WebSockets. A record is found by the random part of its
// token, once the token's signature was checked.
type records struct {
	mu      sync.Mutex
	byToken map[[tokenIDSize]byte]*record // guarded by mu
	pending int                           // guarded by mu: begun by a POST, not attached
	bytes   int                           // guarded by mu: that wait for those
	over    int                           // guarded by mu: over, and the client does not know
}

// A phase is how far a record has come.
type phase uint8

const (
	pending  phase = iota // claimed, nothing attached
	opening               // its first request is being let in
	attached              // serve runs
	over                  // serve has returned, or was never called
)

// A record is one connection that is more than one request. The requests of
// its client find it here; what is particular to a transport is in conn.
type record struct {
	// fixed
	endpoint *Endpoint
	token    token
	id       string // the public one, which opens nothing
	until    time.Time
	byPost   bool          // a POST began it
	ready    chan struct{} // closed when it is known whether the token could be claimed

	// written before ready is closed
	claimed bool

	inbox inbox

	// handlers are the requests under way, which the end of the connection
	// waits for. Nothing is added once phase is over.
	handlers sync.WaitGroup

	counted bool // guarded by the mu of records: among the pending
	bytes   int  // guarded by the mu of records: that wait meanwhile

	mu     sync.Mutex
	phase  phase       // guarded by mu
	kind   Kind        // guarded by mu; empty until something is attached
	poll   *pollConn   // guarded by mu; for LongPolling, once attached
	socket *resumable  // guarded by mu; for WebSockets that may be replaced, once attached
	expiry *time.Timer // guarded by mu: of a record that is pending or kept
	told   bool        // guarded by mu: the client has had the answer that it is over
	kept   bool        // guarded by mu: for the client's next poll

	subject string // guarded by mu: who its requests act for
	named   bool   // guarded by mu: subject is known
}

// own refuses a request that acts for somebody else than the connection's first
// one. What was sent before anything was attached must be the same one's even if
// that was nobody.
func (e *Endpoint) own(r *http.Request, rec *record) (Refusal, *StatusError) {
	if e.opts.Subject == nil {
		return 0, nil
	}
	subject := e.opts.Subject(r)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !rec.named {
		rec.subject, rec.named = subject, true
	}
	if subject == rec.subject || rec.subject == "" && rec.phase != pending {
		return 0, nil
	}
	return RefusedUnauthorized, &StatusError{Code: http.StatusForbidden, Text: "The connection is another user's"}
}

// findRecord returns the record of a token, if there is one.
func (e *Endpoint) findRecord(t *token) *record {
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	return e.records.byToken[t.id]
}

// recallToken reads the token of a connection that is here, by whichever keys
// it was made: they may have been replaced since.
func (e *Endpoint) recallToken(text string) (t token, ok bool) {
	if t.id, ok = claimedID(text); !ok {
		return t, false
	}
	rec := e.findRecord(&t)
	if rec == nil || !hmac.Equal([]byte(rec.token.text), []byte(text)) {
		return t, false
	}
	return rec.token, true
}

// acquire returns the record of a token that is alive, and makes it when there
// is none, by claiming the token.
func (e *Endpoint) acquire(r *http.Request, t *token) (*record, Refusal, *StatusError) {
	for {
		rec, mine, err := e.addRecord(r, t)
		if err != nil {
			return nil, RefusedFull, err
		}
		if mine {
			return e.claimRecord(r, rec, t)
		}
		select {
		case <-rec.ready:
		case <-r.Context().Done():
			return nil, RefusedVanished, &StatusError{Code: http.StatusServiceUnavailable}
		}
		if rec.claimed {
			return rec, 0, nil
		}
	}
}

// addRecord returns the token's record, and whether it is new.
func (e *Endpoint) addRecord(r *http.Request, t *token) (rec *record, mine bool, err *StatusError) {
	byPost := r.Method == http.MethodPost
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	if rec := e.records.byToken[t.id]; rec != nil {
		return rec, false, nil
	}
	if byPost {
		if e.records.pending >= e.opts.MaxPending {
			return nil, false, &StatusError{Code: http.StatusServiceUnavailable, Text: "Too many connections", RetryAfter: retryAfter}
		}
		e.records.pending++
	}
	rec = &record{counted: byPost, endpoint: e, token: *t, id: encodeID(t.id), until: t.until, byPost: byPost, ready: make(chan struct{})}
	rec.inbox.init(e.started)
	if e.records.byToken == nil {
		e.records.byToken = make(map[[tokenIDSize]byte]*record)
	}
	e.records.byToken[t.id] = rec
	return rec, true, nil
}

// claimRecord makes the token that of its new record, or removes the record.
func (e *Endpoint) claimRecord(r *http.Request, rec *record, t *token) (_ *record, why Refusal, refused *StatusError) {
	defer func() { // a panic in Claims included
		if !rec.claimed {
			rec.settle()
			e.removeRecord(rec)
		}
		close(rec.ready)
	}()
	if why, refused = e.claim(r, t); refused != nil {
		return nil, why, refused
	}
	rec.claimed = true
	if rec.byPost {
		rec.mu.Lock()
		rec.expiry = time.AfterFunc(e.opts.DisconnectTimeout, rec.expire)
		rec.mu.Unlock()
	}
	return rec, 0, nil
}

// removeRecord forgets a record, which may be forgotten already.
func (e *Endpoint) removeRecord(rec *record) {
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	if e.records.byToken[rec.token.id] == rec {
		delete(e.records.byToken, rec.token.id)
	}
}

// settle stops counting a record as pending.
func (rec *record) settle() {
	e := rec.endpoint
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	if rec.counted {
		rec.counted = false
		e.records.pending--
		e.records.bytes -= rec.bytes
	}
}

// reserve counts bytes that are to wait for a pending record's connection, if
// there is room for them.
func (rec *record) reserve(size int) bool {
	e := rec.endpoint
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	switch {
	case !rec.counted:
		return true
	case rec.bytes+size > maxBody || e.records.bytes+size > maxPendingBytes:
		return false
	}
	rec.bytes += size
	e.records.bytes += size
	return true
}

// join counts a request of the record. The connection's end waits until quit.
func (rec *record) join() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.phase == over {
		return false
	}
	rec.handlers.Add(1)
	return true
}

func (rec *record) quit() { rec.handlers.Done() }

// state is what has become of the record.
func (rec *record) state() (phase, Kind) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.phase, rec.kind
}

// attach makes the record that of one transport, for the first request that
// receives. Whoever gets true calls attached or detach.
func (rec *record) attach(kind Kind) bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.phase != pending {
		return false
	}
	rec.phase, rec.kind = opening, kind
	if rec.expiry != nil {
		rec.expiry.Stop()
	}
	return true
}

// begin is the start of the connection. poll is nil but for long polling, and
// socket but for WebSockets that may be replaced.
func (rec *record) begin(poll *pollConn, socket *resumable) {
	rec.settle()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.phase, rec.poll, rec.socket = attached, poll, socket
}

// detach undoes attach: a record that a POST began waits on for a request that
// is let in, any other is forgotten and its token unspent.
func (rec *record) detach() {
	if !rec.byPost {
		rec.discard(opening)
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.phase, rec.kind = pending, ""
	rec.expiry.Reset(rec.endpoint.opts.DisconnectTimeout)
}

// expire ends a record to which nothing was attached in time.
func (rec *record) expire() { rec.discard(pending) }

// discard ends a record that has no connection, and leaves its token unspent.
func (rec *record) discard(from phase) {
	rec.mu.Lock()
	if rec.phase != from {
		rec.mu.Unlock()
		return
	}
	rec.phase = over
	rec.mu.Unlock()
	rec.inbox.end(errGone)
	rec.settle()
	rec.endpoint.removeRecord(rec)
	rec.endpoint.release(rec.token.connID(), rec.until, false)
}

// finish ends the record of a connection whose serve has returned, and waits
// for its requests. A client of long polling that does not know it yet is
// answered for a while.
func (rec *record) finish() {
	e := rec.endpoint
	rec.mu.Lock()
	rec.phase = over
	rec.mu.Unlock()
	rec.inbox.end(errGone) // nobody receives any more
	rec.mu.Lock()
	late := rec.kind == LongPolling && !rec.told
	rec.mu.Unlock()
	if !late || !rec.keep() {
		e.removeRecord(rec)
	}
	e.release(rec.token.connID(), rec.until, true)
	rec.handlers.Wait()
}

// keep keeps the record for the client's next poll, if there is room.
func (rec *record) keep() bool {
	e := rec.endpoint
	e.records.mu.Lock()
	room := e.records.over < e.opts.MaxPending
	if room {
		e.records.over++
	}
	e.records.mu.Unlock()
	if !room {
		return false
	}
	rec.mu.Lock()
	rec.kept = !rec.told
	if rec.kept {
		rec.expiry = time.AfterFunc(e.opts.DisconnectTimeout, func() { rec.tell() })
	}
	kept := rec.kept
	rec.mu.Unlock()
	if !kept {
		e.forgetKept()
	}
	return kept
}

// tell reports whether it is the caller who answers that the connection is
// over: one poll does. If serve has returned already, that was all the record
// was kept for.
func (rec *record) tell() bool {
	rec.mu.Lock()
	first := !rec.told
	rec.told = true
	kept := first && rec.kept
	if kept {
		rec.expiry.Stop()
	}
	rec.mu.Unlock()
	if kept {
		rec.endpoint.forgetKept()
		rec.endpoint.removeRecord(rec)
	}
	return first
}

func (e *Endpoint) forgetKept() {
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	e.records.over--
}
