//go:build unix

package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// A pooledReader waits for a socket without a buffer and takes one from a pool
// when there is something to put into it. Nothing but a socket of the operating
// system can be waited for like that, so it must know that nobody is in between.
//
// It is used by one goroutine.
type pooledReader struct {
	raw     syscall.RawConn
	read    func(fd uintptr) bool // readSocket, made once
	buffers *sync.Pool            // *[readBuffer]byte

	buffer     *[readBuffer]byte // nil while nothing is unread
	begin, end int               // buffer[begin:end] is unread
	err        error             // why readSocket has read nothing
}

// newPooledReader returns nil if conn is not a plain socket.
func newPooledReader(conn net.Conn, buffers *sync.Pool) *pooledReader {
	var raw syscall.RawConn
	var err error
	switch conn := conn.(type) { // no interface: wrappers may promote SyscallConn and still have a Read of their own
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		raw, err = conn.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	r := &pooledReader{raw: raw, buffers: buffers}
	r.read = r.readSocket
	return r
}

// unread is how many bytes take has.
func (r *pooledReader) unread() int { return r.end - r.begin }

// take takes what is unread, as far as p has room.
func (r *pooledReader) take(p []byte) int {
	n := copy(p, r.buffer[r.begin:r.end])
	if r.begin += n; r.begin == r.end {
		r.free()
	}
	return n
}

// fill waits for bytes and reads some. Nothing must be unread.
func (r *pooledReader) fill() error {
	if err := r.raw.Read(r.read); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

func (r *pooledReader) free() {
	r.buffers.Put(r.buffer)
	r.buffer, r.begin, r.end = nil, 0, 0
}

// readSocket reads what is there, and reports false if that is nothing yet.
func (r *pooledReader) readSocket(fd uintptr) bool {
	r.buffer = r.buffers.Get().(*[readBuffer]byte)
	n, err := syscall.Read(int(fd), r.buffer[:])
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), r.buffer[:])
	}
	if n > 0 {
		r.end, r.err = n, nil
		return true
	}
	r.free()
	switch {
	case err == nil:
		r.err = io.EOF
	case errors.Is(err, syscall.EAGAIN):
		return false
	default:
		r.err = os.NewSyscallError("read", err)
	}
	return true
}
