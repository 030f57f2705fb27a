package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// upgradeTimeout bounds the wait for the answer to an upgrade.
	upgradeTimeout = 30 * time.Second

	// lingerTimeout is how long one direction of a WebSocket goes on after
	// the other has ended.
	lingerTimeout = 30 * time.Second

	// maxInformational bounds the 1xx answers in front of the real one.
	maxInformational = 5
)

// upgrade forwards a WebSocket upgrade, on a connection of its own, and then the
// WebSocket.
func (f *Forwarder) upgrade(e *errand) error {
	ctx := e.r.Context()
	conn, err := f.dial(ctx, e.scheme, e.host)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, orLeft(ctx, err))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	out := e.request(ctx)
	out.Header["Connection"] = []string{"Upgrade"}
	out.Header["Upgrade"] = []string{"websocket"}
	res, from, err := shakeHands(conn, out)
	switch {
	case err != nil && conn.written.Load() == 0:
		return fmt.Errorf("%w: %w", ErrUnreachable, orLeft(ctx, err))
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnanswered, orLeft(ctx, err))
	case res.StatusCode != http.StatusSwitchingProtocols:
		f.forwarded.Add(1)
		f.answer(e.w, e.r, res)
		return nil
	case !hasToken(res.Header, "Upgrade", "websocket"):
		return fmt.Errorf("%w: it switched to another protocol", ErrUnanswered)
	}
	client, buffered, err := http.NewResponseController(e.w).Hijack()
	if err != nil {
		return fmt.Errorf("%w: hijack: %w", ErrUnanswered, err)
	}
	f.forwarded.Add(1)
	t := &tunnel{client: client, owner: conn, buffers: &f.buffers, patience: f.patience, linger: f.linger}
	defer t.close()
	if !f.enter(t) {
		return nil
	}
	defer f.leave(t)
	if err := t.run(head(e.w.Header(), res.Header), pending(buffered.Reader), pending(from)); err != nil {
		f.aborted.Add(1)
		f.log.LogAttrs(ctx, slog.LevelDebug, "forward: WebSocket broke off", slog.Any("err", err))
	}
	return nil
}

// orLeft adds errLeft to an error if the client is the cause.
func orLeft(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return err
}

// enter counts a tunnel in, unless f was closed.
func (f *Forwarder) enter(t *tunnel) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.tunnels[t] = struct{}{}
	f.running.Add(1)
	return true
}

// leave undoes enter.
func (f *Forwarder) leave(t *tunnel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tunnels, t)
	f.running.Done()
}

// shakeHands sends the request and reads the head of the answer.
func shakeHands(conn net.Conn, out *http.Request) (*http.Response, *bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return nil, nil, err
	}
	if err := out.Write(conn); err != nil {
		return nil, nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxAnswerHead}
	from := bufio.NewReader(limited)
	for range maxInformational {
		res, err := http.ReadResponse(from, out)
		if err != nil {
			return nil, nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			limited.N = 1<<63 - 1
			return res, from, conn.SetDeadline(time.Time{})
		}
	}
	return nil, nil, errors.New("too many informational answers")
}

// head writes the answer that the client gets: what is set here already, and
// the owner's.
func head(own, from http.Header) []byte {
	out := endToEnd(from)
	all := own.Clone()
	merge(all, out)
	all["Connection"] = []string{"Upgrade"}
	all["Upgrade"] = []string{strings.Join(from["Upgrade"], ", ")}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	all.Write(&b) // a bytes.Buffer does not fail
	b.WriteString("\r\n")
	return b.Bytes()
}

// pending returns a copy of what was read ahead, so that the reader's buffer can
// be freed.
func pending(r *bufio.Reader) []byte {
	ahead, _ := r.Peek(r.Buffered()) // what is buffered can be peeked at
	return bytes.Clone(ahead)
}

// A tunnel carries a WebSocket's bytes between client and owner.
type tunnel struct {
	client   net.Conn
	owner    *ownerConn
	buffers  *sync.Pool
	patience time.Duration // of the owner with the client's reading
	linger   time.Duration // of one direction after the other has ended
}

// close ends both sides; run returns then.
func (t *tunnel) close() {
	t.client.Close()
	t.owner.Close()
}

// run carries bytes until both directions have ended, the first one to end
// being respected as half a close. fromClient and fromOwner are what was read
// of each side already.
func (t *tunnel) run(head, fromClient, fromOwner []byte) error {
	if err := t.client.SetDeadline(time.Time{}); err != nil { // the server's
		return err
	}
	var upward error
	done := make(chan struct{})
	go func() {
		defer close(done)
		// No deadline for the owner: a busy hub may let its clients wait.
		upward = t.carry(t.owner, t.client, fromClient, 0)
	}()
	downward := t.carry(t.client, t.owner, append(head, fromOwner...), t.patience)
	<-done
	return errors.Join(upward, downward)
}

// carry copies one direction and passes its end on. An error ends both.
func (t *tunnel) carry(to, from net.Conn, first []byte, patience time.Duration) error {
	if err := t.copy(to, from, first, patience); err != nil {
		t.close()
		return err
	}
	if closeWrite(to) != nil {
		t.close() // to has ended already, and did not wait for this
		return nil
	}
	// The other direction reads what to writes, and writes it to from.
	end := time.Now().Add(t.linger)
	to.SetReadDeadline(end) // fails only if closed, as Read will
	from.SetWriteDeadline(end)
	return nil
}

func (t *tunnel) copy(to, from net.Conn, first []byte, patience time.Duration) error {
	buffer := t.buffers.Get().(*[bufferSize]byte)
	defer t.buffers.Put(buffer)
	var end error
	for piece := first; ; {
		if len(piece) > 0 {
			if patience > 0 {
				to.SetWriteDeadline(time.Now().Add(patience)) // fails only if closed, as Write will
			}
			if _, err := to.Write(piece); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
		if end != nil {
			return end
		}
		var n int
		n, end = from.Read(buffer[:])
		piece = buffer[:n]
	}
}

// closeWrite says that nothing more will come on the connection.
func closeWrite(c net.Conn) error {
	if o, ok := c.(*ownerConn); ok {
		c = o.Conn
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
