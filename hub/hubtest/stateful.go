package hubtest

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// ReattachTime is how long a stateful connection waits for its next socket.
const ReattachTime = 15 * time.Second

// A stateful is a Conn whose socket can be lost and replaced. What is on its
// way when that happens is lost with it. Sockets are numbered from 0.
type stateful struct {
	*Conn

	mu      sync.Mutex
	allowed bool
	refused bool          // resuming was allowed, and is no more
	latest  int           // the number of the latest socket
	lost    bool          // that one is lost
	live    int           // the socket that Send uses
	current int           // the socket that Receive reads
	told    bool          // Receive has said that it is lost
	changed chan struct{} // closed at the next change of any of these
}

var _ transport.ResumableConn = (*stateful)(nil)

var errNoReattach = errors.New("hubtest: no further socket")

func newStateful(c *Conn) *stateful { return &stateful{Conn: c, changed: make(chan struct{})} }

// change runs f and wakes who waits for a change.
func (s *stateful) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// AllowResume says whether the socket may be replaced.
func (s *stateful) AllowResume(on bool) {
	s.change(func() { s.allowed, s.refused = on, s.allowed && !on || s.refused })
}

// Resume lets Send through again.
func (s *stateful) Resume() { s.change(func() { s.live = s.current }) }

// cut loses the socket and what is on its way.
func (s *stateful) cut() {
	s.change(func() {
		if !s.allowed {
			s.CloseNow()
		}
		s.pipe.Store(newPipe())
		s.lost = true
	})
}

// reattach brings another socket and reports whether it was taken.
func (s *stateful) reattach() (taken bool) {
	s.change(func() {
		select {
		case <-s.dropped:
		default:
			taken = s.allowed
		}
		if taken {
			if !s.lost { // else cut has made one, in which the client may have written
				s.pipe.Store(newPipe())
			}
			s.latest++
			s.lost = false
		}
	})
	return taken
}

// Receive returns what the client wrote next, or what became of its socket.
func (s *stateful) Receive() ([]byte, error) {
	window := time.NewTimer(ReattachTime)
	defer window.Stop()
	for {
		s.mu.Lock()
		in, changed := s.pipe.Load().in, s.changed
		broken := s.latest > s.current || s.lost
		switch {
		case broken && !s.told:
			s.told = true
			s.mu.Unlock()
			return nil, transport.ErrDetached
		case s.latest > s.current:
			s.current, s.told = s.latest, false
			s.mu.Unlock()
			return nil, transport.ErrResumed
		case broken && s.refused:
			s.mu.Unlock()
			return nil, errNoReattach
		}
		s.mu.Unlock()
		if piece, err := s.wait(in, changed, window.C, broken); piece != nil || err != nil {
			return piece, err
		}
	}
}

// wait waits for a piece, an end or a change.
func (s *stateful) wait(in chan []byte, changed chan struct{}, window <-chan time.Time, broken bool) ([]byte, error) {
	if !broken {
		window = nil
	}
	select {
	case piece := <-in:
		return piece, nil
	case <-changed:
		return nil, nil
	case <-s.dropped:
		return nil, errDropped
	case <-window:
		s.CloseNow()
		return nil, errNoReattach
	case <-s.hungUp:
		select {
		case piece := <-in:
			return piece, nil
		default:
			return nil, io.EOF
		}
	}
}

// Send hands the batch to the client unless its socket is lost.
func (s *stateful) Send(batch []*transport.Message, deadline time.Time) error {
	var b []byte
	for _, m := range batch {
		b = append(b, m.Payload()...)
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		out, changed := s.pipe.Load().out, s.changed
		gone := s.lost || s.live != s.latest
		s.mu.Unlock()
		if gone {
			return transport.ErrDetached
		}
		if len(b) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-s.dropped:
			return errDropped
		case out <- b:
			return nil
		case <-timer.C:
			return os.ErrDeadlineExceeded
		}
	}
}
