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
// way when that happens is lost with it.
type stateful struct {
	*Conn

	mu      sync.Mutex
	allowed bool
	live    bool          // Send gets through
	told    bool          // Receive has returned ErrDetached for this loss
	broken  chan struct{} // closed when the socket is lost
	arrived chan struct{} // closed when another has come
	refused chan struct{} // closed when none may come any more
}

var _ transport.ResumableConn = (*stateful)(nil)

var errNoReattach = errors.New("hubtest: no further socket")

func newStateful(c *Conn) *stateful {
	return &stateful{Conn: c, live: true, broken: make(chan struct{}), arrived: make(chan struct{}), refused: make(chan struct{})}
}

// AllowResume says whether the socket may be replaced.
func (s *stateful) AllowResume(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allowed && !on {
		close(s.refused)
	}
	s.allowed = on
}

// Resume lets Send through again.
func (s *stateful) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = true
}

// cut loses the socket and what is on its way.
func (s *stateful) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allowed {
		s.CloseNow()
		return
	}
	s.pipe.Store(newPipe())
	close(s.broken)
	s.live = false
}

// reattach brings another socket and reports whether it was taken.
func (s *stateful) reattach() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.dropped:
		return false
	default:
	}
	if s.allowed {
		close(s.arrived)
	}
	return s.allowed
}

// state returns the channels of now.
func (s *stateful) state() (live bool, p *pipe, broken, arrived, refused chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live, s.pipe.Load(), s.broken, s.arrived, s.refused
}

// Receive returns what the client wrote next, or what became of its socket.
func (s *stateful) Receive() ([]byte, error) {
	_, p, broken, arrived, refused := s.state()
	select {
	case <-broken:
		return nil, s.await(arrived, refused)
	default:
	}
	select {
	case piece := <-p.in:
		return piece, nil
	case <-broken:
		return nil, s.await(arrived, refused)
	case <-s.dropped:
		return nil, errDropped
	case <-s.hungUp:
		select {
		case piece := <-p.in:
			return piece, nil
		default:
			return nil, io.EOF
		}
	}
}

// await tells of a loss, and the next time of the next socket.
func (s *stateful) await(arrived, refused chan struct{}) error {
	if !s.told {
		s.told = true
		return transport.ErrDetached
	}
	window := time.NewTimer(ReattachTime)
	defer window.Stop()
	select {
	case <-arrived:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = false
		s.broken, s.arrived = make(chan struct{}), make(chan struct{})
		return transport.ErrResumed
	case <-refused:
		return errNoReattach
	case <-s.dropped:
		return errDropped
	case <-window.C:
		s.CloseNow()
		return errNoReattach
	}
}

// Send hands the batch to the client unless its socket is lost.
func (s *stateful) Send(batch []*transport.Message, deadline time.Time) error {
	live, p, broken, _, _ := s.state()
	if !live {
		return transport.ErrDetached
	}
	var b []byte
	for _, m := range batch {
		b = append(b, m.Payload()...)
	}
	if len(b) == 0 {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-broken:
		return transport.ErrDetached
	case <-s.dropped:
		return errDropped
	case p.out <- b:
		return nil
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}
