package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

const (
	// clientPatience is how long a client may take nothing of its answer.
	clientPatience = 30 * time.Second

	bufferSize = 8 << 10
)

// An errand is a request on its way to its owner.
type errand struct {
	w            http.ResponseWriter
	r            *http.Request
	scheme, host string   // the owner's
	key          [32]byte // signs
	now          time.Time
	early        *body // set if the answer comes before all of it was read, on HTTP/1.x
}

// request is the request as the owner gets it, without body. Each has a nonce
// of its own, or the owner would take a second attempt for a replay.
func (e *errand) request(ctx context.Context) *http.Request {
	out := &http.Request{
		Method: e.r.Method,
		// Opaque is written as it is (url.URL.RequestURI): the owner gets the
		// client's spelling, whatever was done to r.URL on the way here.
		URL:   &url.URL{Scheme: e.scheme, Host: e.host, Opaque: e.r.RequestURI},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: outgoing(e.r),
		Host:   e.r.Host,
	}
	out.Header[header] = []string{newClaim(e.r, e.now).sign(e.r, e.key)}
	return out.WithContext(ctx)
}

// exchange forwards everything but WebSockets.
func (f *Forwarder) exchange(e *errand) error {
	res, again, err := e.roundTrip(f.kept)
	if again {
		res, _, err = e.roundTrip(f.fresh)
	}
	if err != nil {
		return err
	}
	f.forwarded.Add(1)
	f.answer(e.w, e.r, res)
	if e.early != nil {
		e.early.finish(e.w)
	}
	return nil
}

// roundTrip sends the request and waits for the head of the answer. If again is
// true nothing has happened yet: the connection was a kept one that had ended.
func (e *errand) roundTrip(by *http.Transport) (res *http.Response, again bool, err error) {
	in := &body{from: e.r.Body}
	var conn *ownerConn
	var reused bool
	var before int64
	out := e.request(httptrace.WithClientTrace(e.r.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*ownerConn); ok {
			conn, reused, before = c, info.Reused, c.written.Load()
			c.watch(func(err error) { in.stop(e.w, errors.Is(err, net.ErrClosed)) })
		}
	}}))
	// A body that cannot be had again keeps http.Transport from sending any
	// request twice, a GET among them. It finds out by itself that a GET has
	// none.
	out.Body, out.ContentLength = in, e.r.ContentLength
	if e.r.Body == nil || e.r.Body == http.NoBody || e.r.ContentLength == 0 {
		in.from, out.ContentLength = http.NoBody, 0
	}
	res, err = by.RoundTrip(out)
	if conn != nil {
		conn.watch(nil)
	}
	ended, cut := in.settle()
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close()
		err = errors.New("it switched protocols")
	}
	if err == nil {
		e.answerEarly(in, ended)
		return res, false, nil
	}
	if in.left(e.r.Context()) {
		err = fmt.Errorf("%w: %w", errLeft, err)
	}
	untouched := conn == nil || conn.written.Load() == before
	again = untouched && reused && in.whole() && e.r.Context().Err() == nil
	if !again {
		e.refuseEarly(in, ended, cut)
	}
	if untouched {
		return nil, again, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil, false, fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// answerEarly prepares the client's connection for an answer that comes before
// all of its body was read: the server would hold it back until then.
func (e *errand) answerEarly(in *body, ended bool) {
	if e.r.ProtoMajor == 1 && !ended {
		e.early = in
		e.w.Header().Set("Connection", "close")
		http.NewResponseController(e.w).EnableFullDuplex() // where there is none, the client decides
	}
}

// refuseEarly does the same for an answer that the caller will give.
func (e *errand) refuseEarly(in *body, ended, cut bool) {
	if e.r.ProtoMajor != 1 || ended {
		return
	}
	e.w.Header().Set("Connection", "close")
	if !cut {
		in.finish(e.w)
	}
}

// answer passes the owner's answer on. It panics with http.ErrAbortHandler if
// that ends too early.
func (f *Forwarder) answer(w http.ResponseWriter, r *http.Request, res *http.Response) {
	defer res.Body.Close()
	merge(w.Header(), endToEnd(res.Header))
	w.WriteHeader(res.StatusCode)
	if res.ContentLength == 0 || r.Method == http.MethodHead {
		return
	}
	out := http.NewResponseController(w)
	if err := f.copyBody(w, out, res.Body); err != nil {
		f.aborted.Add(1)
		if r.Context().Err() == nil {
			f.report(r.Context(), "forward: answer broke off", slog.String("method", r.Method), slog.Any("err", err))
		}
		panic(http.ErrAbortHandler)
	}
}

// copyBody copies and flushes piece by piece, beginning with the head.
func (f *Forwarder) copyBody(w io.Writer, out *http.ResponseController, from io.Reader) error {
	buffer := f.buffers.Get().(*[bufferSize]byte)
	defer f.buffers.Put(buffer)
	var n int
	var end error
	for {
		// Not every ResponseWriter has deadlines; an http.Server's has. On
		// HTTP/2 they also strike while nothing is being written.
		out.SetWriteDeadline(time.Now().Add(f.patience))
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return fmt.Errorf("to the client: %w", err)
			}
		}
		if err := out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("to the client: %w", err)
		}
		if end == io.EOF {
			out.SetWriteDeadline(time.Time{})
			return nil
		}
		if end != nil {
			return fmt.Errorf("from the owner: %w", end)
		}
		out.SetWriteDeadline(time.Time{})
		n, end = from.Read(buffer[:])
	}
}
