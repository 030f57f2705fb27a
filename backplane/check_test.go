package backplane_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// listen starts a TCP server that treats every connection with serve, and
// closes it, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String()
}

func TestCheck(t *testing.T) {
	const password = "s3cret-Pa55"
	open := redistest.Start(t, redistest.TCP())
	locked := redistest.Start(t, redistest.TCP(), redistest.Password(password))
	secure := redistest.Start(t, redistest.TLS())
	http := listen(t, func(c net.Conn) {
		c.Read(make([]byte, 512))
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	})
	mail := listen(t, func(c net.Conn) { io.WriteString(c, "220 mail.example.org ESMTP ready\r\n") })
	mute := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	full := listen(t, func(c net.Conn) {
		io.WriteString(c, "-ERR max number of clients reached\r\n")
		c.Read(make([]byte, 512))
	})
	guarded := listen(t, func(c net.Conn) {
		io.WriteString(c, "-DENIED Redis is running in protected mode because\r\n")
		c.Read(make([]byte, 512))
	})
	closing := listen(t, func(net.Conn) {})
	nobody := "127.0.0.1:1"

	for _, test := range []struct {
		name string
		url  string
		tls  *tls.Config
		want error
		text string // part of the message
	}{
		{"accepts an open server", open.URL(), nil, nil, ""},
		{"accepts the right password", locked.URL(), nil, nil, ""},
		{"accepts TLS", secure.URL(), secure.TLSConfig(), nil, ""},
		{"tells a wrong password", "redis://:" + password + "x@" + locked.Addr(), nil, backplane.ErrAuth, "wrong user name or password"},
		{"tells an unknown user", "redis://nobody:" + password + "@" + locked.Addr(), nil, backplane.ErrAuth, "wrong user name or password"},
		{"tells a missing password", "redis://" + locked.Addr(), nil, backplane.ErrAuth, "a password is required"},
		{"tells a web server", "redis://" + http, nil, backplane.ErrNotRedis, "HTTP/1.1"},
		{"tells another protocol", "redis://" + mail, nil, backplane.ErrNotRedis, "220 mail"},
		{"tells that the TLS handshake is not answered", "rediss://" + mute, nil, backplane.ErrUnavailable, "TLS handshake"},
		{"tells that a web server does not speak TLS", "rediss://" + http, nil, backplane.ErrNotRedis, "does not speak TLS"},
		{"tells that the certificate is unknown", secure.URL(), nil, backplane.ErrNotRedis, "certificate"},
		{"tells that TLS is wanted", "redis://" + secure.Addr(), nil, backplane.ErrUnavailable, "closed by the other side"},
		{"tells a refused connection", "redis://" + nobody, nil, backplane.ErrUnavailable, "refused"},
		{"tells a missing socket", "unix:///nonexistent/redis.sock", nil, backplane.ErrUnavailable, "no such file"},
		{"tells a server that never answers", "redis://" + mute, nil, backplane.ErrUnavailable, "timeout"},
		{"tells a server that hangs up", "redis://" + closing, nil, backplane.ErrUnavailable, ""},
		{"tells a server in protected mode", "redis://" + guarded, nil, backplane.ErrAuth, "protected mode"},
		{"tells a server that is full", "redis://" + full, nil, backplane.ErrUnavailable, "max number of clients"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := backplane.New(backplane.Options{URL: test.url, TLSConfig: test.tls})
			if err != nil {
				t.Fatal(err)
			}
			err = r.Check(t.Context())
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err == nil {
				return
			}
			text := err.Error()
			if !strings.Contains(text, test.text) || strings.Contains(text, "\n") {
				t.Errorf("error %q, want one line with %q", text, test.text)
			}
			if strings.Contains(text, password) {
				t.Errorf("error %q contains the password", text)
			}
			u, ok := errors.AsType[unavailable](err)
			if got, want := ok && u.Unavailable(), test.want == backplane.ErrUnavailable; got != want {
				t.Errorf("Unavailable is %v, want %v", got, want)
			}
		})
	}
}

func TestRunReportsWhatCheckReports(t *testing.T) {
	server := redistest.Start(t, redistest.TCP(), redistest.Password("right"))
	r := start(t, backplane.Options{URL: "redis://:wrong@" + server.Addr()})
	states := watchLink(r)
	state := await(t, states, patience, "down", isDown)
	if !errors.Is(state.Err, backplane.ErrAuth) {
		t.Errorf("Link.Err %v, want ErrAuth", state.Err)
	}
	server.Do("CONFIG", "SET", "requirepass", "wrong")
	await(t, states, healTime, "up once the password is right", isUp)
}

func TestNewChecksOptions(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct {
		name  string
		opt   backplane.Options
		field string // empty: accepted
		want  error
	}{
		{"accepts a URL alone", backplane.Options{URL: "redis://localhost"}, "", nil},
		{"accepts a socket", backplane.Options{URL: "unix:///run/redis.sock?db=3"}, "", nil},
		{"accepts an encoded password", backplane.Options{URL: "rediss://me:a%2Fb%40c@[::1]:6380/2"}, "", nil},
		{"asks for a URL", backplane.Options{}, "URL", nil},
		{"asks for a scheme", backplane.Options{URL: "localhost:6379"}, "URL", nil},
		{"refuses Sentinel", backplane.Options{URL: "redis-sentinel://a:1,b:2/master"}, "URL", backplane.ErrUnsupportedScheme},
		{"refuses Cluster", backplane.Options{URL: "redis-cluster://a:1,b:2"}, "URL", backplane.ErrUnsupportedScheme},
		{"refuses another scheme", backplane.Options{URL: "http://localhost"}, "URL", backplane.ErrUnsupportedScheme},
		{"refuses a bad database", backplane.Options{URL: "redis://localhost/x"}, "URL", nil},
		{"refuses a password with a slash", backplane.Options{URL: "redis://:" + secret + "/x@localhost"}, "URL", nil},
		{"refuses a password with a question mark", backplane.Options{URL: "redis://:1?" + secret + "@localhost"}, "URL", nil},
		{"refuses a password with a percent sign", backplane.Options{URL: "redis://:%zz" + secret + "@localhost"}, "URL", nil},
		{"refuses a client name with a space", backplane.Options{URL: "redis://localhost", ClientName: "a b"}, "ClientName", nil},
		{"refuses a negative queue", backplane.Options{URL: "redis://localhost", PublishQueueBytes: -1}, "PublishQueueBytes", nil},
		{"refuses a negative batch", backplane.Options{URL: "redis://localhost", SubscribeBatch: -1}, "SubscribeBatch", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := backplane.New(test.opt)
			if test.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			bad, ok := errors.AsType[*backplane.OptionError](err)
			if !ok || bad.Field != test.field {
				t.Fatalf("error %v, want an OptionError of %s", err, test.field)
			}
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q contains the password", err)
			}
		})
	}
}

func TestRefusedChannels(t *testing.T) {
	server := redistest.Start(t, redistest.TCP())
	server.Do("ACL", "SETUSER", "limited", "on", ">pw", "+@all", "~*", "resetchannels", "&open:*")
	r := start(t, backplane.Options{URL: "redis://limited:pw@" + server.Addr()})
	in := newInbox(t)
	err := r.Subscribe(t.Context(), in.deliver, "open:a", "closed:a", "open:b")
	if !errors.Is(err, backplane.ErrAuth) {
		t.Errorf("Subscribe: %v, want ErrAuth", err)
	}
	for _, test := range []struct {
		channel string
		want    error
	}{{"open:a", nil}, {"open:b", nil}, {"closed:a", backplane.ErrAuth}, {"closed:b", backplane.ErrAuth}} {
		if err := r.Subscribe(t.Context(), in.deliver, test.channel); !errors.Is(err, test.want) {
			t.Errorf("Subscribe(%q): %v, want %v", test.channel, err, test.want)
		}
		if _, err := r.PublishConfirmed(t.Context(), test.channel, nil); !errors.Is(err, test.want) {
			t.Errorf("PublishConfirmed(%q): %v, want %v", test.channel, err, test.want)
		}
	}
	in.wait(2)
	if s := r.redis.Stats(); s.Links != 1 || s.Refused != 2 || s.Published != 2 {
		t.Errorf("%d links, %d refused, %d published, want 1, 2 and 2", s.Links, s.Refused, s.Published)
	}
	server.Do("ACL", "SETUSER", "limited", "allchannels")
	server.Do("CLIENT", "KILL", "USER", "limited")
	eventually(t, "what was refused is tried again on a new link", func() bool { return server.NumSub("closed:a") == 1 })
}

// The package comment lists the permissions; they are enough.
func TestPermissions(t *testing.T) {
	server := redistest.Start(t, redistest.TCP())
	server.Do("ACL", "SETUSER", "instance", "on", ">pw", "resetchannels", "&app:*", "resetkeys", "~sb:*", "-@all",
		"+hello", "+auth", "+ping", "+select", "+client|setname", "+subscribe", "+unsubscribe", "+publish",
		"+pubsub|numsub", "+set", "+get", "+pexpire", "+time")
	r := start(t, backplane.Options{URL: "redis://instance:pw@" + server.Addr() + "/1", ChannelPrefix: "app:"})
	if err := r.redis.Check(t.Context()); err != nil {
		t.Error(err)
	}
	in := newInbox(t)
	subscribe(t, r, in.deliver, "room", "other")
	if n, err := r.PublishConfirmed(t.Context(), "room", []byte("x")); n != 1 || err != nil {
		t.Errorf("PublishConfirmed: %d, %v, want 1", n, err)
	}
	if n, err := r.Receivers(t.Context(), "room"); n != 1 || err != nil {
		t.Errorf("Receivers: %d, %v, want 1", n, err)
	}
	in.wait(1)
	key := keyOf(t, r, "token-key")
	server.Do("SELECT", 1)
	if got := server.Do("GET", "sb:token-key"); got != current(key) {
		t.Error("the stored key is another one")
	}
	if err := r.Unsubscribe(t.Context(), "room", "other"); err != nil {
		t.Error(err)
	}
	eventually(t, "no channels", func() bool { return len(server.Channels()) == 0 })
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := start(t, backplane.Options{URL: server.URL(), PublishQueueBytes: 10_000})
	subscribe(t, r, ignore, "up")
	if err := r.Publish(t.Context(), "room", make([]byte, 10_000)); !errors.Is(err, backplane.ErrTooLarge) {
		t.Errorf("more than the queue holds: %v, want ErrTooLarge", err)
	}
	server.Pause()
	for {
		err := r.Publish(t.Context(), "room", make([]byte, 2000))
		if err == nil {
			continue
		}
		if !errors.Is(err, backplane.ErrUnavailable) {
			t.Errorf("a full queue: %v, want ErrUnavailable", err)
		}
		break
	}
	server.Resume()
	eventually(t, "messages are taken again", func() bool {
		_, err := r.PublishConfirmed(t.Context(), "room", nil)
		return err == nil
	})
}

// lineWriter passes log lines on; those for which there is no room are lost.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

func TestRedisThatGoesMad(t *testing.T) {
	for _, reply := range []string{"*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*0\r\n", "$-1\r\n",
		"*3\r\n$9\r\nsubscribe\r\n$4\r\nelse\r\n:1\r\n", "-OOPS\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n:1\r\n"} {
		t.Run(fmt.Sprintf("%q", reply), func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(c net.Conn) {
				buf := make([]byte, 4096)
				for range 3 { // HELLO, CLIENT SETNAME, PING
					if _, err := c.Read(buf); err != nil {
						return
					}
					io.WriteString(c, "+OK\r\n")
				}
				io.WriteString(c, reply)
			})
			lines := make(lineWriter, 10)
			start(t, backplane.Options{URL: "redis://" + addr, Logger: slog.New(slog.NewTextHandler(lines, nil))})
			select {
			case line := <-lines:
				if !strings.Contains(line, "redis link down") {
					t.Errorf("logged %q", line)
				}
			case <-time.After(patience):
				t.Error("the link stays up")
			}
		})
	}
}
