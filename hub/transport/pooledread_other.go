//go:build !unix

package transport

import (
	"io"
	"net"
	"sync"
)

// A pooledReader needs to wait for a socket without reading from it, which this
// operating system has no simple way to do.
type pooledReader struct{ io.Reader }

func newPooledReader(net.Conn, *sync.Pool) *pooledReader { return nil }
