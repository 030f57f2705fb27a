package transport

import (
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestIdleMemory pins what a connection costs that has spoken once and is
// silent now.
func TestIdleMemory(t *testing.T) {
	const conns = 500
	limit := int64(6 << 10)
	if raceEnabled {
		limit *= 4
	}
	got := measureIdle(t, conns, openBare)
	if per := (got.heap + got.stack) / conns; per > limit {
		t.Errorf("%d bytes for each idle connection, want at most %d (heap %d, stack %d)", per, limit, got.heap/conns, got.stack/conns)
	}
}

// TestIdleMemoryOfRequests pins what a poll and an event stream cost on which
// nothing happens. Most of it is the HTTP server's: the goroutine of its
// connection, the one that watches it, and their buffers.
func TestIdleMemoryOfRequests(t *testing.T) {
	const conns = 300
	limit := int64(32 << 10)
	if raceEnabled {
		limit *= 4
	}
	for name, open := range map[string]opener{"poll": openBarePoll, "event stream": openBareStream} {
		got := measureIdle(t, conns, open)
		if per := (got.heap + got.stack) / conns; per > limit {
			t.Errorf("%d bytes for each idle %s, want at most %d (heap %d, stack %d)", per, name, limit, got.heap/conns, got.stack/conns)
		}
	}
}

// BenchmarkIdle reports what an idle connection costs, the kernel's part left
// out.
func BenchmarkIdle(b *testing.B) {
	const conns = 2000
	for name, open := range map[string]opener{"WebSocket": openBare, "poll": openBarePoll, "event stream": openBareStream} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				got := measureIdle(b, conns, open)
				b.ReportMetric(float64(got.rss)/conns, "RSS/conn")
				b.ReportMetric(float64(got.heap)/conns, "heap/conn")
				b.ReportMetric(float64(got.stack)/conns, "stack/conn")
			}
		})
	}
}

// An opener opens a connection and leaves it idle.
type opener func(t testing.TB, e *Endpoint, port int) (fd int)

// measureIdle opens connections and says by how much they made the process
// grow. The clients are bare descriptors, so that this is the server's part.
func measureIdle(t testing.TB, conns int, open opener) memory {
	t.Helper()
	opened := make(chan Conn, 1)
	e, err := New(Options{Open: func(*http.Request, Info) (func(Conn), error) {
		return func(c Conn) {
			opened <- c
			echo(c)
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: e}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	port := l.Addr().(*net.TCPAddr).Port

	fds := make([]int, 0, conns+1)
	held := make([]Conn, 0, conns+1)
	add := func() {
		fds = append(fds, open(t, e, port))
		held = append(held, <-opened)
	}
	add() // whatever is made only once
	before := residentMemory(t)
	for range conns {
		add()
	}
	after := residentMemory(t)
	for i, fd := range fds {
		held[i].CloseNow()
		syscall.Close(fd)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	<-served
	return memory{after.rss - before.rss, after.heap - before.heap, after.stack - before.stack}
}

// openBare opens a WebSocket and has one message echoed.
func openBare(t testing.TB, _ *Endpoint, port int) (fd int) {
	t.Helper()
	fd = dialBare(t, port)
	exchange(t, fd, []byte("GET / HTTP/1.1\r\nHost: x\r\n"+strings.ReplaceAll(upgradeHeaders, "\n", "\r\n")+"\r\n"), "101")
	exchange(t, fd, clientFrame(0x81, []byte("hello")), "hello")
	return fd
}

// openBarePoll sends a first poll, and another one on which nothing comes.
func openBarePoll(t testing.TB, e *Endpoint, port int) (fd int) {
	t.Helper()
	fd = dialBare(t, port)
	tok := bareToken(e)
	request := []byte("GET /?id=" + tok.text + " HTTP/1.1\r\nHost: x\r\n\r\n")
	exchange(t, fd, request, "200")
	if _, err := syscall.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	rec := e.findRecord(&tok)
	until(t, func() bool {
		rec.mu.Lock()
		p := rec.poll
		rec.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.holder != nil
	})
	return fd
}

func openBareStream(t testing.TB, e *Endpoint, port int) (fd int) {
	t.Helper()
	fd = dialBare(t, port)
	exchange(t, fd, []byte("GET /?id="+bareToken(e).text+" HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"), "200")
	return fd
}

func bareToken(e *Endpoint) token {
	tok := token{until: time.Now().Add(time.Hour), id: newID(), owner: e.owner}
	tok.sign(&e.opts.Keys.Keys()[0])
	return tok
}

func dialBare(t testing.TB, port int) (fd int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return fd
}

func exchange(t testing.TB, fd int, request []byte, want string) {
	t.Helper()
	if _, err := syscall.Write(fd, request); err != nil {
		t.Fatal(err)
	}
	var buf [512]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil || !strings.Contains(string(buf[:max(n, 0)]), want) {
		t.Fatalf("got %q, %v, want %q", buf[:max(n, 0)], err, want)
	}
}

type memory struct{ rss, heap, stack int64 }

func residentMemory(t testing.TB) memory {
	t.Helper()
	runtime.GC()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmRSS:")
	line, _, _ = strings.Cut(line, "kB")
	kb, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return memory{rss: kb << 10, heap: int64(m.HeapAlloc), stack: int64(m.StackInuse)}
}
