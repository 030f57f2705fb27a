package forward

import (
	"errors"
	"net"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

// silentAddress is an address whose machine does not answer: a listener whose
// queue is full, so that the system drops what comes.
func silentAddress(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}).String()
	for {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
}

func TestSilentMachine(t *testing.T) {
	f := newForwarder(t, Options{})
	began := time.Now()
	err := f.Forward(httptest.NewRecorder(), arrived("GET", "/hub", "a"), silentAddress(t))
	if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnanswered) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 2*dialTimeout {
		t.Errorf("it took %v, want about %v", took, dialTimeout)
	}
}

func TestDeadMachinesAreNoticed(t *testing.T) {
	f := newForwarder(t, Options{})
	owner := serve(t, nil)
	c, err := f.dial(t.Context(), "http", host(owner))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for _, option := range []struct {
			name               string
			level, value, want int
		}{
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10},
			{"TCP_USER_TIMEOUT", syscall.IPPROTO_TCP, tcpUserTimeout, 60_000},
		} {
			if got, err := syscall.GetsockoptInt(int(fd), option.level, option.value); err != nil || got != option.want {
				t.Errorf("%s: got %d, %v, want %d", option.name, got, err, option.want)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
