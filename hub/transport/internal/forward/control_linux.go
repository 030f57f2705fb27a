package forward

import (
	"context"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks on
// some architectures. Without it the system sends lost data again for a quarter
// of an hour, and keep-alive probes do not start before that.
const tcpUserTimeout = 0x12

// control prepares the socket of a connection to an owner.
func control(_ context.Context, _, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lossTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
