package wire

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
)

// closeTimeout is how long these servers wait for the end of a goodbye.
const closeTimeout = 200 * time.Millisecond

// Peers that leave, each by half: the server lets go of the socket all the same,
// and the disconnect callback has run once.
func TestHalfAGoodbye(t *testing.T) {
	closeRecord := `{"type":7}`
	for n, tt := range []struct {
		name  string
		leave func(p *peer)
		cause *hub.Disconnect
	}{
		{"Close record and an open connection", func(p *peer) {
			p.send(closeRecord)
			p.expect(closeRecord, "close 1000")
		}, hub.ErrClosedByClient},
		{"Close record and more behind it", func(p *peer) {
			p.send(closeRecord, call("1", "Echo", "[1]"), ping)
			p.expect(closeRecord, "close 1000")
		}, hub.ErrClosedByClient},
		{"Close record with an error", func(p *peer) {
			p.send(`{"type":7,"error":"went wrong"}`)
			p.expect(closeRecord, "close 1000")
		}, hub.ErrClosedByClient},
		{"close frame and an open connection", func(p *peer) {
			p.write(closeFrame(1000))
			p.expectClose(1000)
		}, hub.ErrClosedByClient},
		{"close frame without a status", func(p *peer) {
			p.write(message(opClose, nil))
			p.expectClose(1000)
		}, hub.ErrClosedByClient},
		{"close frame of a tab that was closed", func(p *peer) {
			p.write(closeFrame(1001))
			p.expectClose(1001)
		}, hub.ErrClosedByClient},
		{"close frame inside a record", func(p *peer) {
			whole := p.encode(call("1", "Echo", "[1]"))
			p.write(message(p.opcode(), whole[:len(whole)-3]))
			p.write(closeFrame(1000))
			p.expectClose(1000)
		}, hub.ErrProtocol},
		{"close frame that is never answered", func(p *peer) {
			p.send(call("", "Leave", "[]"))
			p.expect(closeRecord, "close 1000")
		}, hub.ErrAborted},
		{"close frame that is never read", func(p *peer) {
			p.send(call("", "Leave", "[]"))
		}, hub.ErrAborted},
		{"close frame that is answered by chatter", func(p *peer) {
			p.send(call("", "Leave", "[]"))
			p.expect(closeRecord, "close 1000")
			for p.tryWrite(p.framed(ping)) == nil {
			}
		}, hub.ErrAborted},
		{"close frame behind more than the peer reads", func(p *peer) {
			p.send(call("", "Fill", "[]"), call("", "Leave", "[]"))
		}, hub.ErrAborted},
		{"half-closed", func(p *peer) {
			p.conn.(*net.TCPConn).CloseWrite()
		}, hub.ErrPeerGone},
		{"half-closed inside a record", func(p *peer) {
			p.write(message(p.opcode(), []byte(`{"type":`)))
			p.conn.(*net.TCPConn).CloseWrite()
		}, hub.ErrPeerGone},
		{"half-closed inside a frame", func(p *peer) {
			p.write(p.framed(ping)[:3])
			p.conn.(*net.TCPConn).CloseWrite()
		}, hub.ErrPeerGone},
		{"half-closed behind a Close record", func(p *peer) {
			p.send(closeRecord)
			p.conn.(*net.TCPConn).CloseWrite()
		}, hub.ErrClosedByClient},
		{"reset", func(p *peer) { p.reset() }, hub.ErrPeerGone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l ledger
			i := tuned(t, func(o *hub.Options) { o.CloseTimeout = closeTimeout }, l.watch, func(h *hub.Hub) {
				h.Handle("Leave", hub.Action0(func(_ context.Context, c *hub.Caller) error { c.Abort(); return nil }))
				h.Handle("Fill", hub.Action0(func(ctx context.Context, c *hub.Caller) error { return fill(ctx, h, c) }))
			})
			sockets := openSockets(t)
			p := join(t, i, dialects()[n%2], hubPath+"?user_id=u")
			p.do("JoinGroup", `["g"]`)
			tt.leave(p)
			i.empty(t, closeTimeout+grace)
			eventually(t, "the server's descriptor is released", grace, func() bool { return openSockets(t) <= sockets+1 })
			p.conn.Close()
			l.expect(t, 1, 1)
			if n := i.ends(tt.cause); n != 1 {
				t.Errorf("ended by %v, want %v", l.causes, tt.cause)
			}
		})
	}
}

// The same before the handshake, where there is no callback yet.
func TestGoodbyeBeforeTheHandshake(t *testing.T) {
	var l ledger
	i := tuned(t, func(o *hub.Options) { o.CloseTimeout = closeTimeout }, l.watch)
	for _, tt := range []struct {
		name  string
		leave func(s *socket)
	}{
		{"close frame and an open connection", func(s *socket) { s.write(closeFrame(1000)) }},
		{"half-closed", func(s *socket) { s.conn.(*net.TCPConn).CloseWrite() }},
		{"half-closed inside the request", func(s *socket) {
			s.write(message(opText, []byte(`{"proto`)))
			s.conn.(*net.TCPConn).CloseWrite()
		}},
		{"refused and never answered", func(s *socket) { s.write(message(opText, []byte("hello"+separator))) }},
		{"refused and answered by chatter", func(s *socket) {
			s.write(message(opText, []byte("hello"+separator)))
			for s.tryWrite(message(opText, []byte("hello"+separator))) == nil {
			}
		}},
		{"reset", func(s *socket) { s.reset() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sockets := openSockets(t)
			s := open(t, i.Addr(), hubPath)
			tt.leave(s)
			i.empty(t, closeTimeout+grace)
			eventually(t, "the server's descriptor is released", grace, func() bool { return openSockets(t) <= sockets+1 })
			s.conn.Close()
		})
	}
	l.expect(t, 0, 0)
}

// pipe is more than the operating system keeps of a connection for a peer that
// does not read, in bytes, and less than what the hub does.
const pipe = 12 << 20

// fill sends to a caller until its connection takes no more.
func fill(ctx context.Context, h *hub.Hub, c *hub.Caller) error {
	value := strings.Repeat("x", 64<<10)
	for h.Stats().QueuedBytes < pipe {
		if err := c.Clients().Caller().Send(ctx, "m", value); err != nil {
			return err
		}
	}
	return nil
}
