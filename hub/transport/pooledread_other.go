//go:build !unix

package transport

import (
	"net"
	"sync"
)

// A pooledReader needs to wait for a socket without reading from it, which this
// operating system has no simple way to do.
type pooledReader struct{}

func newPooledReader(net.Conn, *sync.Pool) *pooledReader { return nil }

func (*pooledReader) unread() int     { return 0 }
func (*pooledReader) take([]byte) int { return 0 }
func (*pooledReader) fill() error     { return nil }
