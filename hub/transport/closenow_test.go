package transport

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A blockedWriter is a ResponseWriter whose client does not read: Write blocks
// until its deadline.
type blockedWriter struct {
	h        http.Header
	armed    chan struct{} // closed: hold the first deadline back
	setting  chan struct{} // a deadline is about to be set
	goOn     chan struct{} // it may
	mu       sync.Mutex
	cond     *sync.Cond
	deadline time.Time
}

func (w *blockedWriter) Header() http.Header { return w.h }
func (w *blockedWriter) WriteHeader(int)     {}
func (w *blockedWriter) FlushError() error   { return nil }
func (w *blockedWriter) SetWriteDeadline(d time.Time) error {
	select {
	case <-w.armed:
		if d.After(time.Now()) {
			w.setting <- struct{}{}
			<-w.goOn
		}
	default:
	}
	w.mu.Lock()
	w.deadline = d
	w.cond.Broadcast()
	w.mu.Unlock()
	return nil
}
func (w *blockedWriter) Write(b []byte) (int, error) {
	select {
	case <-w.armed:
	default:
		return len(b), nil
	}
	for {
		w.mu.Lock()
		d := w.deadline
		w.mu.Unlock()
		if !d.IsZero() && time.Now().After(d) {
			return 0, &net.OpError{Op: "write", Err: fmt.Errorf("deadline")}
		}
		runtime.Gosched()
	}
}

// TestCloseNowFreesAWriteThatIsAboutToBegin: CloseNow comes between the decision to write
// and the deadline of that write, to a client that does not read.
func TestCloseNowFreesAWriteThatIsAboutToBegin(t *testing.T) {
	for _, kind := range []Kind{ServerSentEvents, LongPolling} {
		t.Run(string(kind), func(t *testing.T) {
			conns := make(chan Conn, 1)
			end := make(chan struct{})
			e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) {
				return func(c Conn) { conns <- c; <-end }, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			tok := token{until: time.Now().Add(time.Minute), id: newID(), owner: e.owner}
			k := e.opts.Keys.Keys()
			tok.sign(&k[0])
			w := &blockedWriter{h: http.Header{}, armed: make(chan struct{}), setting: make(chan struct{}), goOn: make(chan struct{})}
			w.cond = sync.NewCond(&w.mu)
			get := func(w http.ResponseWriter) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hub?id="+tok.text, nil)
				if kind == ServerSentEvents {
					r.Header.Set("Accept", "text/event-stream")
				}
				e.ServeHTTP(w, r)
			}
			handled := make(chan struct{})
			if kind == LongPolling {
				get(httptest.NewRecorder())
			}
			go func() { defer close(handled); get(w) }()
			c := wait(t, conns)
			if kind == LongPolling {
				rec := e.findRecord(&tok)
				until(t, func() bool { rec.poll.mu.Lock(); defer rec.poll.mu.Unlock(); return rec.poll.holder != nil })
			}
			close(w.armed)
			sent := make(chan error, 1)
			go func() { sent <- c.Send(text("x"), time.Now().Add(3*time.Second)) }()
			<-w.setting
			closed := make(chan struct{})
			began := time.Now()
			go func() { c.CloseNow(); close(closed) }()
			<-time.After(50 * time.Millisecond)
			close(w.goOn)
			go func() { // further deadlines
				for range w.setting {
				}
			}()
			<-closed
			err = <-sent
			if took := time.Since(began); took > time.Second {
				t.Errorf("Send was freed after %v: %v", took, err)
			}
			close(end)
			<-handled
			e.Wait(t.Context())
			close(w.setting)
		})
	}
}
