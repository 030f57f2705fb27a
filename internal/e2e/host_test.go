package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

// hostEnv makes this test binary run as a test host: a process of its own that
// serves a hub with a method for every target, built on the public library.
const hostEnv = "SWITCHBOARD_TEST_HOST_REDIS"

// hostMain is the test host. It serves until its standard input ends.
func hostMain(redisURL string) error {
	n, err := newNode(nodeConfig{redis: redisURL})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	<-n.Ready()
	fmt.Println(n.url)
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	return errors.Join(err, <-ended)
}

// handleEveryTarget registers a method for every way to name recipients; each
// sends "m" with its last argument.
func handleEveryTarget(h *hub.Hub) {
	type ctx = context.Context
	h.Handle("Echo", hub.Func1(func(_ ctx, _ *hub.Caller, v protocol.Value) (protocol.Value, error) { return v, nil }))
	h.Handle("ID", hub.Func0(func(_ ctx, from *hub.Caller) (string, error) { return from.ConnectionID(), nil }))
	h.Handle("Join", hub.Action1(func(c ctx, from *hub.Caller, g string) error { return from.AddToGroup(c, g) }))
	h.Handle("Leave", hub.Action1(func(c ctx, from *hub.Caller, g string) error { return from.RemoveFromGroup(c, g) }))
	h.Handle("All", hub.Action1(func(c ctx, from *hub.Caller, v protocol.Value) error { return from.Clients().All().Send(c, "m", v) }))
	h.Handle("AllExcept", hub.Action2(func(c ctx, from *hub.Caller, ids []string, v protocol.Value) error {
		return from.Clients().AllExcept(ids...).Send(c, "m", v)
	}))
	h.Handle("Client", hub.Action2(func(c ctx, from *hub.Caller, id string, v protocol.Value) error {
		return from.Clients().Client(id).Send(c, "m", v)
	}))
	h.Handle("Clients", hub.Action2(func(c ctx, from *hub.Caller, ids []string, v protocol.Value) error {
		return from.Clients().Clients(ids...).Send(c, "m", v)
	}))
	h.Handle("Group", hub.Action2(func(c ctx, from *hub.Caller, g string, v protocol.Value) error {
		return from.Clients().Group(g).Send(c, "m", v)
	}))
	h.Handle("Groups", hub.Action2(func(c ctx, from *hub.Caller, gs []string, v protocol.Value) error {
		return from.Clients().Groups(gs...).Send(c, "m", v)
	}))
	h.Handle("GroupExcept", hub.Action3(func(c ctx, from *hub.Caller, g string, ids []string, v protocol.Value) error {
		return from.Clients().GroupExcept(g, ids...).Send(c, "m", v)
	}))
	h.Handle("OthersInGroup", hub.Action2(func(c ctx, from *hub.Caller, g string, v protocol.Value) error {
		return from.Clients().OthersInGroup(g).Send(c, "m", v)
	}))
	h.Handle("User", hub.Action2(func(c ctx, from *hub.Caller, u string, v protocol.Value) error {
		return from.Clients().User(u).Send(c, "m", v)
	}))
	h.Handle("Users", hub.Action2(func(c ctx, from *hub.Caller, us []string, v protocol.Value) error {
		return from.Clients().Users(us...).Send(c, "m", v)
	}))
	h.Handle("Caller", hub.Action1(func(c ctx, from *hub.Caller, v protocol.Value) error {
		return from.Clients().Caller().Send(c, "m", v)
	}))
	h.Handle("Others", hub.Action1(func(c ctx, from *hub.Caller, v protocol.Value) error {
		return from.Clients().Others().Send(c, "m", v)
	}))
	h.Handle("Add", hub.Action2(func(c ctx, _ *hub.Caller, id, g string) error { return shown(h.AddToGroup(c, id, g)) }))
	h.Handle("Remove", hub.Action2(func(c ctx, _ *hub.Caller, id, g string) error { return shown(h.RemoveFromGroup(c, id, g)) }))
	// Outside uses the hub as a program does that is no method of it.
	h.Handle("Outside", hub.Action2(func(_ ctx, _ *hub.Caller, g string, v protocol.Value) error {
		return h.Clients().Group(g).Send(context.Background(), "m", v)
	}))
}

// shown lets the test's client read an error.
func shown(err error) error {
	if err == nil {
		return nil
	}
	return hub.Errorf("%w", err)
}

// startHost runs a test host as a process until the test ends and returns its
// hub's URL.
func startHost(t testing.TB, rs *redistest.Server) string {
	t.Helper()
	cmd, url, end := runHost(t, rs)
	t.Cleanup(func() {
		end()
		if err := cmd.Wait(); err != nil {
			t.Errorf("test host: %v", err)
		}
	})
	return url
}

// startMortalHost runs a test host that kill ends without warning (SIGKILL).
func startMortalHost(t testing.TB, rs *redistest.Server) (url string, kill func()) {
	t.Helper()
	cmd, url, _ := runHost(t, rs)
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait() // says that it was killed
	})
	t.Cleanup(kill)
	return url, kill
}

// runHost starts a test host, which ends by itself when end is called.
func runHost(t testing.TB, rs *redistest.Server) (cmd *exec.Cmd, url string, end func() error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	// Under the race detector a process sleeps for a second at its end.
	cmd.Env = append(os.Environ(), hostEnv+"="+rs.URL(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("test host said nothing: %v", err)
	}
	return cmd, strings.TrimSpace(line), in.Close
}

// A listener is a client that notes what it receives as "m".
type listener struct {
	*client.Client
	got chan string
}

func listen(t testing.TB, o client.Options) *listener {
	t.Helper()
	l := &listener{got: make(chan string, 20000)}
	l.Client = connectWith(t, o, func(c *client.Client) {
		c.On("m", func(args client.Args) {
			s, err := client.Arg[string](args, 0)
			if err != nil {
				s = "bad argument: " + err.Error()
			}
			l.got <- s
		})
	})
	return l
}

// expect fails the test unless exactly these messages come next.
func (l *listener) expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case s := <-l.got:
			if s != w {
				t.Fatalf("received %q, want %q", s, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing came, want %q", w)
		}
	}
}

// expectAll fails the test unless exactly these messages come, in any order.
func (l *listener) expectAll(t testing.TB, want []string) {
	t.Helper()
	var got []string
	for range want {
		select {
		case s := <-l.got:
			got = append(got, s)
		case <-time.After(10 * time.Second):
			t.Fatalf("received only %q, want %q", got, want)
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("received %q, want %q", got, want)
	}
	l.nothing(t)
}

// nothing fails the test if anything has come. The barrier is a message to the
// same connection that must be next.
func (l *listener) nothing(t testing.TB) {
	t.Helper()
	if err := l.Call(t.Context(), "Caller", "barrier"); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "barrier")
}
