package transport

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkIdle opens b.N connections and measures what each one costs while
// nothing happens. The clients are bare descriptors, so that nearly all that is
// measured is the server's.
func BenchmarkIdle(b *testing.B) {
	opened := make(chan Conn, 1)
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) {
		return func(c Conn) {
			opened <- c
			echo(c)
		}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: e}
	go srv.Serve(l)
	defer srv.Close()
	port := l.Addr().(*net.TCPAddr).Port

	dial := func() int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			b.Fatal(err)
		}
		exchange(b, fd, []byte("GET / HTTP/1.1\r\nHost: x\r\n"+strings.ReplaceAll(upgradeHeaders, "\n", "\r\n")+"\r\n"), "101")
		exchange(b, fd, clientFrame(0x81, []byte("hello")), "hello")
		return fd
	}
	fds := make([]int, 0, b.N+1)
	conns := make([]Conn, 0, b.N+1)
	fds, conns = append(fds, dial()), append(conns, <-opened)
	before := residentMemory(b)
	for range b.N {
		fds, conns = append(fds, dial()), append(conns, <-opened)
	}
	after := residentMemory(b)
	n := float64(b.N)
	b.ReportMetric(float64(after.rss-before.rss)/n, "RSS/conn")
	b.ReportMetric(float64(after.heap-before.heap)/n, "heap/conn")
	b.ReportMetric(float64(after.stack-before.stack)/n, "stack/conn")
	for i, fd := range fds {
		conns[i].CloseNow()
		syscall.Close(fd)
	}
	if err := e.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func exchange(b *testing.B, fd int, request []byte, want string) {
	b.Helper()
	if _, err := syscall.Write(fd, request); err != nil {
		b.Fatal(err)
	}
	var buf [512]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil || !strings.Contains(string(buf[:max(n, 0)]), want) {
		b.Fatalf("got %q, %v, want %q", buf[:max(n, 0)], err, want)
	}
}

type memory struct{ rss, heap, stack int64 }

func residentMemory(b *testing.B) memory {
	b.Helper()
	runtime.GC()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f, err := os.Open("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if kb, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			rss, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kb, "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return memory{rss: rss << 10, heap: int64(m.HeapAlloc), stack: int64(m.StackInuse)}
		}
	}
	b.Fatal(io.ErrUnexpectedEOF)
	return memory{}
}
