package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/coder/websocket"
)

// Sizes of a parser's buffers, in bytes.
const (
	parserBuffer = 512

	// controlBuffer is the library's write buffer. It carries control frames
	// only, which must go out in one Write each: 2 bytes of header and 125 of
	// payload at most.
	controlBuffer = 128
)

// controlTimeout is less than what the library gives a control frame before it
// closes the connection from another goroutine.
const controlTimeout = 4 * time.Second

// errIdle is what a parser reads when a control frame was all there was.
var errIdle = errors.New("transport: nothing to read")

// A parser is the WebSocket library's side of a connection: it reads frames and
// answers control frames. Together with its buffers it is the larger part of a
// connection, and has nothing to remember between two messages. So connections
// have one only while they read a message, and idle ones share what they do not
// need: a parser that has read whole messages and nothing else serves any
// connection next.
type parser struct {
	*wire  // what it reads from; nil in the pool
	ws     *websocket.Conn
	reader *bufio.Reader

	attached time.Duration // when, in the wire's time
	control  bool          // it has read a control frame since
	idle     bool          // that was all there was
}

// accept makes a parser by a WebSocket handshake, whose answer goes to w.
func accept(w http.ResponseWriter, r *http.Request, hijack func() (*wire, error)) (*parser, error) {
	p := &parser{}
	h := &hijacker{ResponseWriter: w, parser: p, hijack: hijack}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the origin was checked for every request
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     p.ping,
		OnPongReceived:     p.pong,
	})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)           // the limit is per record, and the codec's
	runtime.SetFinalizer(ws, nil) // it would close a connection that is not its own any more
	p.reader.Reset(p)             // without what the library puts in between
	p.ws = ws
	return p, nil
}

// A hijacker gives the library a parser in place of a connection, with small
// buffers instead of the HTTP server's.
type hijacker struct {
	http.ResponseWriter
	parser *parser
	hijack func() (*wire, error)
}

// Hijack implements http.Hijacker for websocket.Accept.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w, err := h.hijack()
	if err != nil {
		h.ResponseWriter = &nobody{h: http.Header{}} // too late for an answer
		return nil, nil, err
	}
	p := h.parser
	p.wire = w
	p.reader = bufio.NewReaderSize(p, parserBuffer)
	return p, bufio.NewReadWriter(p.reader, bufio.NewWriterSize(p, controlBuffer)), nil
}

// newParser makes a parser without a connection, by a handshake with nobody.
func newParser() (*parser, error) {
	r := &http.Request{Method: http.MethodGet, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
		"Connection":            {"Upgrade"},
		"Upgrade":               {"websocket"},
		"Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key":     {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}}
	return accept(&nobody{h: http.Header{}}, r, func() (*wire, error) { return nil, nil })
}

// nobody is the ResponseWriter of a handshake with nobody.
type nobody struct{ h http.Header }

func (n *nobody) Header() http.Header         { return n.h }
func (n *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n *nobody) WriteHeader(int)             {}

// Read reads from the connection, unless a control frame was all that it had
// and it may have to wait for more.
func (p *parser) Read(b []byte) (int, error) {
	if p.idle {
		p.idle = false
		return 0, errIdle
	}
	return p.wire.Read(b)
}

func (p *parser) ping(context.Context, []byte) bool {
	p.noteControl()
	return true
}

func (p *parser) pong(context.Context, []byte) { p.noteControl() }

func (p *parser) noteControl() {
	p.control = true
	p.idle = p.empty()
}

// empty reports whether everything that came has been read.
func (p *parser) empty() bool { return p.reader.Buffered() == 0 && p.unread() == 0 }

// message waits for the next message.
func (p *parser) message() (io.Reader, error) {
	_, r, err := p.ws.Reader(context.Background())
	return r, err
}

// takeParser gives the wire a parser from the pool.
func (e *Endpoint) takeParser(w *wire) (*parser, error) {
	p, _ := e.parsers.Get().(*parser)
	if p == nil {
		var err error
		if p, err = newParser(); err != nil {
			return nil, err
		}
	}
	p.wire = w
	p.attached = time.Duration(w.last.Load())
	return p, nil
}

// putParser takes back a parser that is between two messages. If the library
// may still be about to close the connection for a control frame that took too
// long, nobody may use the parser again.
func (e *Endpoint) putParser(p *parser) {
	if p.control && time.Since(p.start)-p.attached > controlTimeout {
		return
	}
	p.wire, p.control, p.idle = nil, false, false
	e.parsers.Put(p)
}
