package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Opcodes and bits of a frame (RFC 6455 section 5.2).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
	bitFin         = 0x80
	bitMask        = 0x80
)

// A socket is the client's end of a TCP connection. It sends exactly the bytes
// that it is told to, and knows enough of WebSockets to read what comes back.
// One goroutine reads; another one may write.
type socket struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
	pings  int // control frames answered while reading
}

// dialTCP opens a connection and says nothing on it.
func dialTCP(t testing.TB, addr string) *socket {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &socket{t: t, conn: conn, reader: bufio.NewReaderSize(conn, 512)}
}

// upgradeRequest is a plain WebSocket handshake, with more header lines if any.
func upgradeRequest(addr, target string, headers ...string) string {
	request := "GET " + target + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, line := range headers {
		request += line + "\r\n"
	}
	return request + "\r\n"
}

// request sends an HTTP request as it is and reads the answer.
func (s *socket) request(request string) *http.Response {
	s.t.Helper()
	s.write([]byte(request))
	s.conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		s.t.Fatalf("no answer to %q: %v", request, err)
	}
	return answer
}

// open opens a WebSocket at a target such as "/hub".
func open(t testing.TB, addr, target string, headers ...string) *socket {
	t.Helper()
	s := dialTCP(t, addr)
	answer := s.request(upgradeRequest(addr, target, headers...))
	if answer.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s: status %d %q, want 101", target, answer.StatusCode, body)
	}
	const accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" // RFC 6455 section 1.3
	if got := answer.Header.Get("Sec-WebSocket-Accept"); got != accept {
		t.Fatalf("Sec-WebSocket-Accept %q, want %q", got, accept)
	}
	return s
}

// write sends bytes as they are.
func (s *socket) write(b []byte) {
	s.t.Helper()
	if err := s.tryWrite(b); err != nil {
		s.t.Fatalf("write: %v", err)
	}
}

// tryWrite is write to a peer that may have gone.
func (s *socket) tryWrite(b []byte) error {
	s.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := s.conn.Write(b)
	return err
}

// frame returns a masked frame, as clients send it. The first byte is the
// opcode with the bits that stand beside it.
func frame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, bitMask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bitMask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bitMask|127), uint64(n))
	}
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}

// message returns a whole message in one frame.
func message(op byte, payload []byte) []byte { return frame(bitFin|op, payload) }

// fragments returns one message cut into pieces of at most size bytes.
func fragments(op byte, payload []byte, size int) []byte {
	var b []byte
	for len(payload) > size {
		b = append(b, frame(op, payload[:size])...)
		op, payload = opContinuation, payload[size:]
	}
	return append(b, frame(bitFin|op, payload)...)
}

// closeFrame returns a close frame with a status.
func closeFrame(status int) []byte {
	return message(opClose, binary.BigEndian.AppendUint16(nil, uint16(status)))
}

// A received is one frame from the server.
type received struct {
	op      byte
	payload []byte
}

// status is the status of a close frame, 1005 if it has none.
func (r received) status() int {
	if len(r.payload) < 2 {
		return 1005
	}
	return int(binary.BigEndian.Uint16(r.payload))
}

// errBadFrame is a frame that this server never sends: masked, fragmented or
// with bits of extensions.
var errBadFrame = errors.New("a frame that is none")

// readFrame reads one frame.
func (s *socket) readFrame(deadline time.Time) (received, error) {
	s.conn.SetReadDeadline(deadline)
	var head [2]byte
	if _, err := io.ReadFull(s.reader, head[:]); err != nil {
		return received{}, err
	}
	if head[0]&0xf0 != bitFin || head[1]&bitMask != 0 {
		return received{}, fmt.Errorf("%w: % x", errBadFrame, head)
	}
	n := uint64(head[1])
	var long [8]byte
	switch n {
	case 126:
		if _, err := io.ReadFull(s.reader, long[6:]); err != nil {
			return received{}, err
		}
		n = binary.BigEndian.Uint64(long[:])
	case 127:
		if _, err := io.ReadFull(s.reader, long[:]); err != nil {
			return received{}, err
		}
		n = binary.BigEndian.Uint64(long[:])
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(s.reader, payload)
	return received{head[0] & 0x0f, payload}, err
}

// read returns the next message or close frame. Pings below the hub are
// answered, as every WebSocket does by itself.
func (s *socket) read(deadline time.Time) (received, error) {
	for {
		f, err := s.readFrame(deadline)
		switch {
		case err != nil:
			return f, err
		case f.op == opPong:
		case f.op == opPing:
			s.pings++
			if err := s.tryWrite(message(opPong, f.payload)); err != nil {
				return f, err
			}
		default:
			return f, nil
		}
	}
}

// next returns the next message or close frame, which must come.
func (s *socket) next() received {
	s.t.Helper()
	f, err := s.read(time.Now().Add(patience))
	if err != nil {
		s.t.Fatalf("nothing came: %v", err)
	}
	return f
}

// expectClose reads a close frame with that status.
func (s *socket) expectClose(status int) {
	s.t.Helper()
	if f := s.next(); f.op != opClose || f.status() != status {
		s.t.Fatalf("got frame %x %q (status %d), want a close frame with status %d", f.op, f.payload, f.status(), status)
	}
}

// expectEnd waits until the server lets go of the TCP connection, reading and
// answering nothing.
func (s *socket) expectEnd(within time.Duration) {
	s.t.Helper()
	s.conn.SetReadDeadline(time.Now().Add(within))
	if n, err := io.Copy(io.Discard, s.reader); errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatalf("the connection is still open after %v and %d bytes more", within, n)
	}
}

// reset drops the connection without a goodbye.
func (s *socket) reset() {
	if tcp, ok := s.conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	s.conn.Close()
}
