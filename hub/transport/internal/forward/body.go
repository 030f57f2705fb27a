package forward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// grace is how long the reading of a client's body may go on after the owner was
// lost.
const grace = 100 * time.Millisecond

var (
	// errLeft is in an error if the client, and not the owner, has ended the
	// request.
	errLeft = errors.New("the client has left")

	// errLost ends the reading of a body that nobody will get.
	errLost = errors.New("the connection to the owner has ended")
)

// A body is a client's body on its way to the owner. Closing it does nothing:
// it is the server's.
//
// net/http does not report a lost owner as long as a read of the body has not
// returned, so that a client that sends slowly, or no more, would keep the news
// from us; stop is for that.
type body struct {
	from io.ReadCloser

	mu      sync.Mutex
	begun   bool          // guarded by mu; something may have been read
	reading bool          // guarded by mu
	stopped bool          // guarded by mu; the connection to the owner has ended
	lost    bool          // guarded by mu; the owner was it that ended it, before the client failed
	ended   bool          // guarded by mu; all of it was read
	failed  bool          // guarded by mu; the client, before the owner
	cut     bool          // guarded by mu; the read in progress was interrupted
	settled bool          // guarded by mu; the request is answered or has failed
	timer   *time.Timer   // guarded by mu
	idle    chan struct{} // guarded by mu; closed when the read in progress returns
}

func (b *body) Read(p []byte) (int, error) {
	if b.from == http.NoBody {
		return 0, io.EOF
	}
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return 0, errLost
	}
	b.begun, b.reading = true, true
	b.mu.Unlock()

	n, err := b.from.Read(p)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
	b.ended = b.ended || err == io.EOF
	b.failed = b.failed || err != nil && err != io.EOF && !b.stopped
	return n, err
}

func (b *body) Close() error { return nil }

// stop ends the reading, because the connection to the owner has ended, be it by
// us, whose client has left. A read in progress that does not return soon is
// ended by its deadline. Not at once: were it just returning the body's last
// byte, the server, which reads on, would take the deadline for the client's end.
func (b *body) stop(w http.ResponseWriter, byUs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	b.stopped, b.lost = true, !byUs && !b.failed
	if b.reading && !b.settled {
		b.timer = time.AfterFunc(grace, func() { b.interrupt(w) })
	}
}

// interrupt ends the read in progress by its deadline, which is not taken back:
// the server would wait for the rest of the body before it answers.
func (b *body) interrupt(w http.ResponseWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading && !b.settled {
		b.cut = true
		http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // where there are none, the client decides
	}
}

// settle says that the request is answered or has failed: w is left alone from
// now on. It reports whether all of the body was read, and whether the reading
// was interrupted.
func (b *body) settle() (ended, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.ended || b.from == http.NoBody, b.cut
}

// finish ends the reading of a body that is not read to its end. It leaves the
// server some time for the rest, so that a client that is still sending it does
// not get a reset for an answer. It waits for the read in progress, because the
// server would take the deadline back for one.
func (b *body) finish(w http.ResponseWriter) {
	b.mu.Lock()
	b.stopped = true
	var idle chan struct{}
	if b.reading {
		idle = make(chan struct{})
		b.idle = idle
	}
	b.mu.Unlock()
	// Where there are no deadlines, the client decides.
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(grace)) == nil && idle != nil {
		<-idle
	}
}

// whole reports whether nothing of the body was taken.
func (b *body) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.begun
}

// left reports whether it is the client that ended a request.
func (b *body) left(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed || ctx.Err() != nil && !b.lost
}
