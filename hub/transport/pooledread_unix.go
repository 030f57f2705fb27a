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

// A pooledReader reads from a socket through a buffer that it has only while
// there is something in it: waiting for a byte takes none. Nothing but a socket
// of the operating system can be waited for like that, so it must know that
// nobody is in between.
//
// It is used by one goroutine.
type pooledReader struct {
	raw     syscall.RawConn
	read    func(fd uintptr) bool // readSocket, made once
	buffers *sync.Pool            // *[readBuffer]byte

	direct []byte // where readSocket shall put the bytes; nil: into a buffer
	buffer *[readBuffer]byte
	begin  int // buffer[begin:end] is unread
	end    int
	n      int   // what readSocket has read
	err    error // why it has not
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

// Read implements io.Reader.
func (r *pooledReader) Read(p []byte) (int, error) {
	if r.begin == r.end {
		r.direct = nil
		if len(p) >= readBuffer {
			r.direct = p
		}
		if err := r.raw.Read(r.read); err != nil {
			return 0, err
		}
		r.direct = nil
		if r.err != nil {
			return 0, r.err
		}
		if r.n == 0 {
			return 0, io.EOF
		}
		if r.buffer == nil {
			return r.n, nil
		}
		r.begin, r.end = 0, r.n
	}
	n := copy(p, r.buffer[r.begin:r.end])
	if r.begin += n; r.begin == r.end {
		r.buffers.Put(r.buffer)
		r.buffer = nil
	}
	return n, nil
}

// readSocket reads what is there, and reports false if that is nothing yet.
func (r *pooledReader) readSocket(fd uintptr) bool {
	p := r.direct
	if p == nil {
		r.buffer = r.buffers.Get().(*[readBuffer]byte)
		p = r.buffer[:]
	}
	for {
		r.n, r.err = syscall.Read(int(fd), p)
		if !errors.Is(r.err, syscall.EINTR) {
			break
		}
	}
	if r.n > 0 {
		return true
	}
	if r.buffer != nil {
		r.buffers.Put(r.buffer)
		r.buffer = nil
	}
	if errors.Is(r.err, syscall.EAGAIN) {
		return false
	}
	if r.err != nil {
		r.err = os.NewSyscallError("read", r.err)
	}
	return true
}
