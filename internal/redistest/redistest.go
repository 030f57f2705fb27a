package redistest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// startTimeout bounds the time from fork to "ready to accept connections".
	startTimeout = 10 * time.Second
	// commandTimeout bounds one command of Do.
	commandTimeout = 5 * time.Second
	// portAttempts is how often a free port may turn out to be taken.
	portAttempts = 5
	// poolSize is that of the client of Do; used one by one, it opens one.
	poolSize = 1000
	// ClientName is the name of the connection on which Do, Channels and NumSub
	// run, so that a test can tell it from its own in CLIENT LIST.
	ClientName = "redistest"
)

// config is what the options of Start fill in.
type config struct {
	tcp      bool
	tls      bool
	password string
	args     []string
}

// Option changes how Start starts the server.
type Option func(*config)

// TCP makes the server listen on a free port of 127.0.0.1 instead of a Unix
// socket.
func TCP() Option { return func(c *config) { c.tcp = true } }

// TLS makes the server listen on a free port of 127.0.0.1 and speak TLS only,
// with a certificate of its own: clients need TLSConfig.
func TLS() Option { return func(c *config) { c.tcp, c.tls = true, true } }

// Password makes the server require this password (requirepass).
func Password(password string) Option { return func(c *config) { c.password = password } }

// Args adds arguments to the command line of redis-server, for example
// Args("--maxclients", "16").
func Args(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// Server is a running (or stopped, or paused) redis-server. Its address is
// fixed for its life; Stop and Restart keep it.
type Server struct {
	tb     testing.TB
	binary string
	dir    string
	config config
	addr   string // host:port or the path of the socket
	proc   *process
	client *redis.Client
	roots  *x509.CertPool // nil without TLS
}

// Start starts a server and waits until it accepts connections. It is killed
// when the test ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatalf("redistest: this test needs the program redis-server (Debian package redis-server): %v", err)
	}
	s := &Server{tb: tb, binary: binary}
	for _, opt := range opts {
		opt(&s.config)
	}
	// Not tb.TempDir: its path carries the name of the test, and a socket's
	// path has room for some 100 bytes only.
	s.dir, err = os.MkdirTemp("", "rds")
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	tb.Cleanup(func() {
		if s.client != nil {
			s.client.Close()
		}
		s.kill()
		os.RemoveAll(s.dir)
	})
	s.addr = filepath.Join(s.dir, "s")
	if s.config.tls {
		if s.roots, err = makeCertificate(s.dir); err != nil {
			tb.Fatalf("redistest: %v", err)
		}
	}
	if err := s.start(); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	s.connect()
	return s
}

// connect makes the client of Do. Each run of the server gets its own, with a
// pool far larger than needed: a pool that failed to dial as often as it is
// large repeats that error and leaves a goroutine behind, both for a second.
func (s *Server) connect() {
	if s.client != nil {
		s.client.Close()
	}
	s.client = redis.NewClient(&redis.Options{
		Network: s.Network(), Addr: s.addr, Password: s.config.password,
		ClientName: ClientName, PoolSize: poolSize, DialerRetries: 1,
		ContextTimeoutEnabled: true, DisableIdentity: true, TLSConfig: s.TLSConfig(),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// start runs the server on its address; a TCP address is chosen at the first
// call.
func (s *Server) start() (err error) {
	if !s.config.tcp {
		s.proc, err = startProcess(s.binary, s.arguments("--port", "0", "--unixsocket", s.addr))
		return err
	}
	if _, _, err := net.SplitHostPort(s.addr); err == nil {
		s.proc, err = startProcess(s.binary, s.portArguments())
		return err
	}
	for range portAttempts {
		s.addr, err = freeAddr()
		if err != nil {
			return err
		}
		if s.proc, err = startProcess(s.binary, s.portArguments()); err == nil {
			return nil
		}
	}
	return err
}

func (s *Server) portArguments() []string {
	_, port, _ := net.SplitHostPort(s.addr)
	if s.config.tls {
		return s.arguments("--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--tls-auth-clients", "no",
			"--tls-cert-file", filepath.Join(s.dir, certFile), "--tls-key-file", filepath.Join(s.dir, keyFile))
	}
	return s.arguments("--port", port, "--bind", "127.0.0.1")
}

func (s *Server) arguments(listen ...string) []string {
	args := append(listen, "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", "", "--loglevel", "notice")
	if s.config.password != "" {
		args = append(args, "--requirepass", s.config.password)
	}
	return append(args, s.config.args...)
}

// freeAddr finds a loopback port that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Network is "unix" or "tcp".
func (s *Server) Network() string {
	if s.config.tcp {
		return "tcp"
	}
	return "unix"
}

// Addr is the path of the socket, or host:port.
func (s *Server) Addr() string { return s.addr }

// URL is the address as a redis://, rediss:// or unix:// URL, with the password if there
// is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "unix", Path: s.addr}
	if s.config.tcp {
		u = url.URL{Scheme: "redis", Host: s.addr}
	}
	if s.config.tls {
		u.Scheme = "rediss"
	}
	if s.config.password != "" {
		u.User = url.UserPassword("", s.config.password)
	}
	return u.String()
}

// TLSConfig is what a client needs to accept the server's certificate; nil
// without TLS.
func (s *Server) TLSConfig() *tls.Config {
	if s.roots == nil {
		return nil
	}
	return &tls.Config{RootCAs: s.roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// PID is the process id of the running server.
func (s *Server) PID() int { return s.proc.pid() }

// Stop kills the server at once (SIGKILL) and waits for its end. It may be
// called from any goroutine, but not concurrently with other methods.
func (s *Server) Stop() { s.kill() }

func (s *Server) kill() {
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
	}
}

// Restart stops the server if it runs and starts it again, empty, on the same
// address.
func (s *Server) Restart() {
	s.tb.Helper()
	s.kill()
	if err := s.start(); err != nil {
		s.tb.Fatalf("redistest: restart: %v", err)
	}
	s.connect()
}

// Pause freezes the server (SIGSTOP): connections stay open, nothing answers.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.proc.pause(); err != nil {
		s.tb.Fatalf("redistest: pause: %v", err)
	}
}

// Resume lets a frozen server go on (SIGCONT).
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.proc.resume(); err != nil {
		s.tb.Fatalf("redistest: resume: %v", err)
	}
}

// TryDo runs one command and returns its reply. Any goroutine may call it,
// but not while Restart runs.
func (s *Server) TryDo(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return s.client.Do(ctx, args...).Result()
}

// Do runs one command and returns its reply; an error reply ends the test.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	reply, err := s.TryDo(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}

// Channels are the channels that have a subscriber (PUBSUB CHANNELS), sorted.
func (s *Server) Channels() []string {
	s.tb.Helper()
	items, ok := s.Do("PUBSUB", "CHANNELS").([]any)
	if !ok {
		s.tb.Fatalf("redistest: PUBSUB CHANNELS answered something else than a list")
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		names = append(names, fmt.Sprint(item))
	}
	slices.Sort(names)
	return names
}

// NumSub is the number of connections subscribed to a channel (PUBSUB NUMSUB).
func (s *Server) NumSub(channel string) int {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	counts, err := s.client.PubSubNumSub(ctx, channel).Result()
	if err != nil {
		s.tb.Fatalf("redistest: PUBSUB NUMSUB: %v", err)
	}
	return int(counts[channel])
}

// Keys are the names of all keys, sorted.
func (s *Server) Keys() []string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	keys, err := s.client.Keys(ctx, "*").Result()
	if err != nil {
		s.tb.Fatalf("redistest: KEYS: %v", err)
	}
	slices.Sort(keys)
	return keys
}

// String names the server in failure messages.
func (s *Server) String() string {
	return s.Network() + " " + strconv.Quote(s.addr)
}
