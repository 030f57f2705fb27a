package forward

import (
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

// newRequest is the request as the owner gets it, without body and signature.
func newRequest(r *http.Request, scheme, host string) *http.Request {
	out := &http.Request{
		Method: r.Method,
		// Opaque is written as it is (url.URL.RequestURI): the owner gets the
		// client's spelling, whatever was done to r.URL on the way here.
		URL:   &url.URL{Scheme: scheme, Host: host, Opaque: r.RequestURI},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: outgoing(r),
		Host:   r.Host,
	}
	return out.WithContext(r.Context())
}

// forwardExchange forwards everything but WebSockets.
func (f *Forwarder) forwardExchange(w http.ResponseWriter, r *http.Request, scheme, host string, stamp func(http.Header)) error {
	res, again, err := f.roundTrip(f.kept, w, r, scheme, host, stamp)
	if again {
		res, _, err = f.roundTrip(f.fresh, w, r, scheme, host, stamp)
	}
	if err != nil {
		return err
	}
	f.forwarded.Add(1)
	f.answer(w, r, res)
	return nil
}

// roundTrip sends the request and waits for the head of the answer. If again is
// true nothing has happened yet: the connection was a kept one that had ended.
func (f *Forwarder) roundTrip(by *http.Transport, w http.ResponseWriter, r *http.Request, scheme, host string, stamp func(http.Header)) (res *http.Response, again bool, err error) {
	in := &body{from: r.Body}
	var conn *ownerConn
	var reused bool
	var before int64
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c, ok := info.Conn.(*ownerConn)
		if !ok {
			return
		}
		conn, reused, before = c, info.Reused, c.written.Load()
		c.watch(func(err error) { in.stop(w, errors.Is(err, net.ErrClosed)) })
	}}
	out := newRequest(r, scheme, host)
	out = out.WithContext(httptrace.WithClientTrace(r.Context(), trace))
	stamp(out.Header)
	// A body that cannot be had again keeps http.Transport from sending any
	// request twice, a GET among them. It finds out by itself that a GET has
	// none.
	out.Body, out.ContentLength = in, r.ContentLength
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		in.from, out.ContentLength = http.NoBody, 0
	}
	res, err = by.RoundTrip(out)
	if conn != nil {
		conn.watch(nil)
	}
	ended, cut := in.settle()
	if r.ProtoMajor == 1 && (cut || err == nil && !ended) {
		w.Header().Set("Connection", "close")
	}
	if r.ProtoMajor == 1 && err == nil && !ended {
		// The owner has answered before it had the whole body. The server
		// would hold the answer back until it has.
		http.NewResponseController(w).EnableFullDuplex()
	}
	if err != nil && in.left(r.Context()) {
		err = fmt.Errorf("%w: %w", errLeft, err)
	}
	switch {
	case err == nil && res.StatusCode == http.StatusSwitchingProtocols:
		res.Body.Close()
		return nil, false, fmt.Errorf("%w: it switched protocols", ErrUnanswered)
	case err == nil:
		return res, false, nil
	case conn == nil:
		return nil, false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case conn.written.Load() == before:
		return nil, reused && in.whole() && r.Context().Err() == nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return nil, false, fmt.Errorf("%w: %w", ErrUnanswered, err)
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
