package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// readBuffer is the size of the pooled buffers, in bytes.
const readBuffer = 2 << 10

// Bounds of linger.
const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// A wire is the network connection below one WebSocket. The library reads
// through it and writes its control frames through it; messages are written
// beside the library, as frames that are ready. It keeps the two apart: a write
// is always whole frames, and after a close frame nothing more goes out.
type wire struct {
	// fixed
	net.Conn
	start time.Time     // when the upgrade was
	grace time.Duration // for a control frame to go out, and for a close to be answered

	// owned by the reader
	pooled *pooledReader // nil where there is none
	early  []byte        // what was read before anybody asked for it
	first  [1]byte       // room for early
	failed error         // why no more can be read; nil if it is not the network's fault

	last atomic.Int64           // when the last byte came, in nanoseconds since start
	shut atomic.Bool            // a close frame has gone out or is about to
	pong atomic.Pointer[[]byte] // frame of a pong that came in the way of a message

	broken atomic.Pointer[error] // the write error that dropped the connection

	// mu is the turn to write, and the one lock that is held across a write:
	// nobody else ever waits for it.
	mu       sync.Mutex
	deadline time.Time // guarded by mu: of writes
}

// hijack takes the connection over from the HTTP server, whose answer to the
// handshake is still in its buffer.
func (w *wire) hijack(rw http.ResponseWriter, e *Endpoint) error {
	conn, buffers, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return err
	}
	w.Conn, w.start, w.grace = conn, time.Now(), e.opts.WebSocketCloseTimeout
	w.pooled = newPooledReader(conn, &e.buffers)
	if err := conn.SetDeadline(time.Time{}); err != nil { // of the HTTP server
		return err
	}
	if err := w.extend(w.start.Add(w.grace)); err != nil {
		return err
	}
	if err := buffers.Writer.Flush(); err != nil {
		return err
	}
	if n := buffers.Reader.Buffered(); n > 0 { // a client may send right behind the handshake
		early, _ := buffers.Reader.Peek(n)
		w.early = bytes.Clone(early)
	}
	return nil
}

// await waits until there is something to read.
func (w *wire) await() error {
	if w.unread() > 0 {
		return nil
	}
	if w.pooled != nil {
		err := w.pooled.fill()
		w.note(err)
		return err
	}
	for {
		n, err := w.Conn.Read(w.first[:]) // TLS has the rest in a buffer of its own
		if n > 0 {
			w.early, err = w.first[:], nil // an error comes again
		}
		if n > 0 || err != nil {
			w.note(err)
			return err
		}
	}
}

// note keeps when the last byte came, or why no more will.
func (w *wire) note(err error) {
	if err != nil {
		w.failed = err
		return
	}
	w.last.Store(int64(time.Since(w.start)))
}

// unread is how many bytes Read has without asking the network.
func (w *wire) unread() int {
	n := len(w.early)
	if w.pooled != nil {
		n += w.pooled.unread()
	}
	return n
}

// Read reads for the library and notes that the peer is alive.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.early) > 0 {
		n := copy(p, w.early)
		if w.early = w.early[n:]; len(w.early) == 0 {
			w.early = nil
		}
		return n, nil
	}
	if w.pooled != nil && (w.pooled.unread() > 0 || len(p) < readBuffer) {
		if err := w.await(); err != nil {
			return 0, err
		}
		return w.pooled.take(p), nil
	}
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.note(nil)
	}
	if err != nil {
		w.note(err)
	}
	return n, err
}

// Write writes one control frame of the library, on the reader's goroutine.
func (w *wire) Write(frame []byte) (int, error) {
	var err error
	switch {
	case frame[0] != opFin|opClose:
		err = w.writePong(frame)
	case len(frame) == 2:
		// The answer to a close frame without status, which has none
		// either; SignalR's server says 1000.
		err = w.writeStatus(StatusNormal, time.Now().Add(w.grace))
	default:
		err = w.writeClose(frame, time.Now().Add(w.grace))
	}
	if err != nil {
		w.failed = err
		return 0, err
	}
	return len(frame), nil
}

// writePong does not wait behind a message: a slow receiver that asks would
// lose its connection, because the library gives a pong 5 s. Only the latest
// one is owed (RFC 6455 section 5.5.3).
func (w *wire) writePong(frame []byte) error {
	if !w.mu.TryLock() {
		late := append([]byte(nil), frame...)
		w.pong.Store(&late)
		if w.mu.TryLock() { // else whoever holds the turn sees it at its end
			w.unlock()
		}
		return nil
	}
	defer w.unlock()
	w.pong.Store(nil) // an older one
	if w.shut.Load() {
		return nil
	}
	return w.write(frame, time.Now().Add(w.grace))
}

// writeStatus writes a close frame with the status unless one has gone out.
func (w *wire) writeStatus(status int, deadline time.Time) error {
	frame := [4]byte{opFin | opClose, 2}
	binary.BigEndian.PutUint16(frame[2:], uint16(status))
	return w.writeClose(frame[:], deadline)
}

func (w *wire) writeClose(frame []byte, deadline time.Time) error {
	if w.shut.Swap(true) { // also stops a batch between two writes
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(frame, deadline)
}

// unlock ends the turn and writes the pong that came in its way. Whoever leaves
// one tries for the turn again afterwards, so that one of the two sees it.
func (w *wire) unlock() {
	for {
		w.mu.Unlock()
		if w.pong.Load() == nil || !w.mu.TryLock() {
			return
		}
		if pong := w.pong.Swap(nil); pong != nil && !w.shut.Load() {
			_ = w.write(*pong, time.Now().Add(w.grace)) // an error has dropped the connection
		}
	}
}

// write writes whole frames in one call. After an error half a frame may be
// out, so the connection is dropped. The caller holds mu.
func (w *wire) write(frames []byte, deadline time.Time) error {
	err := w.extend(deadline)
	if err == nil {
		_, err = w.Conn.Write(frames)
	}
	if err != nil {
		broken := err // a variable of its own, or every write would allocate one
		w.broken.CompareAndSwap(nil, &broken)
		w.drop()
	}
	return err
}

// extend gives a write between half of the time that is left until deadline and
// all of it: to set a deadline costs more than to look at the clock.
func (w *wire) extend(deadline time.Time) error {
	now := time.Now()
	want, left := deadline.Sub(now), w.deadline.Sub(now)
	if want <= 0 {
		return os.ErrDeadlineExceeded
	}
	if left >= want/2 && left <= want {
		return nil
	}
	w.deadline = deadline
	return w.SetWriteDeadline(deadline)
}

// drop closes the network connection at once. On TLS that leaves out the
// farewell, which would wait for room in the socket's buffer.
func (w *wire) drop() {
	if secure, ok := w.Conn.(*tls.Conn); ok {
		_ = secure.NetConn().Close()
		return
	}
	_ = w.Conn.Close()
}

// linger lets the peer read what was written to it last: to close a connection
// on which something is unread resets it, and takes even that away.
func (w *wire) linger(buf []byte) {
	half, ok := w.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || w.SetReadDeadline(time.Now().Add(min(w.grace, lingerTime))) != nil {
		return
	}
	for n := 0; n < lingerBytes; {
		m, err := w.Conn.Read(buf)
		if err != nil {
			return
		}
		n += m
	}
}
