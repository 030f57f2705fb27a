package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// peerLimit bounds every wait of a peer.
const peerLimit = 2 * time.Minute

// narrow is a receive buffer so small that its peer is stuck as soon as it stops
// reading, in bytes.
const narrow = 4096

// A peer is a WebSocket client that does only what the test tells it to: it may
// talk too early, stop reading, hang up rudely or say nothing at all. It has no
// goroutines. One goroutine may read while another writes.
type peer struct {
	ws    *websocket.Conn
	tcp   *net.TCPConn
	proto protocol.Protocol

	buf    []byte   // read and not yet handled
	calls  int      // made
	early  []string // received by call while it waited for its answer
	pinged bool     // a WebSocket ping has arrived
}

// dialPeer opens a WebSocket and says nothing on it. buffer is the size of its
// receive buffer in bytes; zero leaves it to the system.
func dialPeer(url string, proto protocol.Protocol, buffer int) (*peer, error) {
	p := &peer{proto: proto}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			p.tcp = conn.(*net.TCPConn)
			if buffer > 0 {
				err = p.tcp.SetReadBuffer(buffer)
			}
			return conn, err
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), peerLimit)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		OnPingReceived: func(context.Context, []byte) bool {
			p.pinged = true
			return true
		},
	})
	if err != nil {
		return nil, err
	}
	p.ws = ws
	ws.SetReadLimit(-1)
	return p, p.tcp.SetDeadline(time.Now().Add(peerLimit))
}

// openPeer opens a peer whose handshake is done.
func openPeer(url string, proto protocol.Protocol) (*peer, error) {
	p, err := dialPeer(url, proto, 0)
	if err != nil {
		return nil, err
	}
	if err := p.handshake(); err != nil {
		p.drop()
		return nil, err
	}
	return p, nil
}

// mustOpen is openPeer for the goroutine of the test; it drops the peer at its
// end.
func mustOpen(t testing.TB, url string, proto protocol.Protocol) *peer {
	t.Helper()
	p, err := openPeer(url, proto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.drop)
	return p
}

// drop cuts the connection.
func (p *peer) drop() { p.ws.CloseNow() }

// reset cuts the connection with a RST.
func (p *peer) reset() error {
	err := errors.Join(p.tcp.SetLinger(0), p.tcp.Close())
	p.drop() // frees the library's part
	return err
}

// leave says goodbye on both levels. The hub may be the first to close the
// WebSocket, whose end is then no error.
func (p *peer) leave() error {
	if err := p.write(p.proto.AppendClose(nil, "", false)); err != nil {
		return err
	}
	_ = p.ws.Close(websocket.StatusNormalClosure, "")
	return nil
}

// swallow takes what comes and answers nothing, not even a WebSocket ping,
// until the hub has had enough.
func (p *peer) swallow() error {
	_, err := io.Copy(io.Discard, p.tcp)
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

// write sends one message with these bytes.
func (p *peer) write(b []byte) error {
	kind := websocket.MessageText
	if p.proto.Binary() {
		kind = websocket.MessageBinary
	}
	return p.ws.Write(context.Background(), kind, b)
}

// requestHandshake sends the handshake.
func (p *peer) requestHandshake() error {
	request := protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: p.proto.Name(), Version: 1})
	return p.ws.Write(context.Background(), websocket.MessageText, request)
}

// handshake does the handshake.
func (p *peer) handshake() error {
	if err := p.requestHandshake(); err != nil {
		return err
	}
	if err := p.more(); err != nil {
		return err
	}
	text, n, err := protocol.ParseHandshakeResponse(p.buf)
	if err != nil || text != "" || n == 0 {
		return fmt.Errorf("handshake answered with %q: %v", p.buf, err)
	}
	p.buf = p.buf[n:]
	return nil
}

// more reads one WebSocket message.
func (p *peer) more() error {
	_, r, err := p.ws.Reader(context.Background())
	if err != nil {
		return err
	}
	if len(p.buf) == 0 {
		p.buf = p.buf[:0:cap(p.buf)]
	}
	for {
		if len(p.buf) == cap(p.buf) {
			p.buf = append(make([]byte, 0, 512+2*cap(p.buf)), p.buf...)
		}
		n, err := r.Read(p.buf[len(p.buf):cap(p.buf)])
		p.buf = p.buf[:len(p.buf)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next returns the next record that is no ping.
func (p *peer) next() (*protocol.Message, error) {
	for {
		body, n, err := p.proto.Cut(p.buf, 0)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			if err := p.more(); err != nil {
				return nil, err
			}
			continue
		}
		m := &protocol.Message{}
		err = p.proto.Parse(bytes.Clone(body), m)
		p.buf = p.buf[n:]
		if err != nil {
			return nil, err
		}
		if m.Type != protocol.Ping {
			return m, nil
		}
	}
}

// receive returns the argument of the next invocation; those that call met come
// first.
func (p *peer) receive() (string, error) {
	if len(p.early) > 0 {
		s := p.early[0]
		p.early = p.early[1:]
		return s, nil
	}
	m, err := p.next()
	if err != nil {
		return "", err
	}
	return p.argument(m)
}

// expect fails unless these arguments come next.
func (p *peer) expect(want ...string) error {
	for _, w := range want {
		switch s, err := p.receive(); {
		case err != nil:
			return fmt.Errorf("want %.40q: %w", w, err)
		case s != w:
			return fmt.Errorf("received %.40q, want %.40q", s, w)
		}
	}
	return nil
}

func (p *peer) argument(m *protocol.Message) (string, error) {
	if m.Type != protocol.Invocation || len(m.Arguments) != 1 {
		return "", fmt.Errorf("a record of type %d (%q) with %d arguments, want an invocation with one", m.Type, m.Error, len(m.Arguments))
	}
	return protocol.Decode[string](p.proto, m.Arguments[0])
}

// errRefused is a call that was answered with an error.
var errRefused = errors.New("the hub refused")

// begin makes a call and returns the id of the answer to come.
func (p *peer) begin(target string, args ...any) (string, error) {
	p.calls++
	id := strconv.Itoa(p.calls)
	record, err := p.proto.AppendInvocation(nil, id, target, args)
	if err != nil {
		return "", err
	}
	return id, p.write(record)
}

// answer waits for the answer to a call and returns its raw result.
func (p *peer) answer(id string) ([]byte, error) {
	for {
		m, err := p.next()
		if err != nil {
			return nil, err
		}
		switch {
		case m.Type == protocol.Completion && string(m.InvocationID) == id:
			if m.HasError {
				return nil, fmt.Errorf("%w: %s", errRefused, m.Error)
			}
			return m.Value, nil
		case m.Type == protocol.Invocation:
			s, err := p.argument(m)
			if err != nil {
				return nil, err
			}
			p.early = append(p.early, s)
		default:
			return nil, fmt.Errorf("a record of type %d (%q), want the answer to %s", m.Type, m.Error, id)
		}
	}
}

// call makes a call and waits for its answer.
func (p *peer) call(target string, args ...any) error {
	id, err := p.begin(target, args...)
	if err != nil {
		return err
	}
	_, err = p.answer(id)
	return err
}

// id asks for the connection's id.
func (p *peer) id() (string, error) {
	call, err := p.begin("ID")
	if err != nil {
		return "", err
	}
	raw, err := p.answer(call)
	if err != nil {
		return "", err
	}
	return protocol.Decode[string](p.proto, raw)
}

// send makes a call that nobody answers.
func (p *peer) send(target string, args ...any) error {
	record, err := p.proto.AppendInvocation(nil, "", target, args)
	if err != nil {
		return err
	}
	return p.write(record)
}

// stream returns the bytes in which messages "m" with these arguments arrive.
func stream(proto protocol.Protocol, args []string) ([]byte, error) {
	var b []byte
	var err error
	for _, a := range args {
		if b, err = proto.AppendInvocation(b, "", "m", []any{a}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// expectStream reads exactly these bytes; there must be no pings in between.
func (p *peer) expectStream(want []byte) error {
	for at := 0; at < len(want); {
		if len(p.buf) == 0 {
			if err := p.more(); err != nil {
				return fmt.Errorf("after %d bytes of %d: %w", at, len(want), err)
			}
		}
		n := min(len(p.buf), len(want)-at)
		if !bytes.Equal(p.buf[:n], want[at:at+n]) {
			return fmt.Errorf("after %d bytes: received %.80q, want %.80q", at, p.buf[:n], want[at:at+n])
		}
		p.buf = p.buf[n:]
		at += n
	}
	return nil
}
