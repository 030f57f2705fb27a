package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// sendRecord appends an invocation without an id.
func sendRecord(t testing.TB, b []byte, target string, args ...any) []byte {
	t.Helper()
	b, err := protocol.JSON{}.AppendInvocation(b, "", target, args)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func helloRecord() []byte {
	return protocol.AppendHandshakeRequest(nil, protocol.HandshakeRequest{Protocol: "json", Version: 1})
}

func TestAClientThatOnConnectedRefusedRunsNothing(t *testing.T) {
	var ran atomic.Int32
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.OnConnected(func(context.Context, *hub.Caller) error {
			time.Sleep(time.Millisecond) // looks the caller up
			return hub.Errorf("not you")
		})
		h.Handle("Act", hub.Action0(func(context.Context, *hub.Caller) error { ran.Add(1); return nil }))
	})
	for range 200 {
		c := hubtest.Connect(t, h, hubtest.Options{NoHandshake: true})
		c.Write(sendRecord(t, helloRecord(), "Act"))
		c.Handshake()
		c.Next()
		c.HangUp()
		<-c.Over()
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d of 200 refused clients ran a method", n)
	}
}

func TestAnAbortedClientRunsNothingMore(t *testing.T) {
	var ran atomic.Int32
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Kick", hub.Action0(func(_ context.Context, c *hub.Caller) error { c.Abort(); return nil }))
		h.Handle("Act", hub.Action0(func(context.Context, *hub.Caller) error { ran.Add(1); return nil }))
	})
	for range 200 {
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(sendRecord(t, sendRecord(t, nil, "Kick"), "Act"))
		c.Next()
		c.HangUp()
		<-c.Over()
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d of 200 aborted clients ran one more method", n)
	}
}

func TestCallsWaitForOnConnectedAlsoWhereSeveralRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connected, early atomic.Bool
		h := start(t, hub.Options{MaximumParallelInvocationsPerClient: 2}, func(h *hub.Hub) {
			h.OnConnected(func(context.Context, *hub.Caller) error {
				time.Sleep(time.Second)
				connected.Store(true)
				return nil
			})
			h.Handle("Act", hub.Action0(func(context.Context, *hub.Caller) error {
				early.Store(!connected.Load())
				return nil
			}))
		})
		c := hubtest.Connect(t, h, hubtest.Options{})
		if _, err := c.Invoke("Act", nil, nil); err != nil {
			t.Fatal(err)
		}
		if early.Load() {
			t.Error("a call ran before OnConnected was over")
		}
	})
}

type deadConn struct {
	id      string
	request []byte
	read    bool
	done    chan struct{}
	once    sync.Once
}

func (c *deadConn) ID() string           { return c.id }
func (c *deadConn) Kind() transport.Kind { return transport.WebSockets }
func (c *deadConn) Binary() bool         { return true }
func (c *deadConn) RemoteAddr() string   { return "" }
func (c *deadConn) Receive() ([]byte, error) {
	if !c.read {
		c.read = true
		return c.request, nil
	}
	<-c.done
	return nil, io.ErrUnexpectedEOF
}
func (c *deadConn) Send([]*transport.Message, time.Time) error { return io.ErrClosedPipe }
func (c *deadConn) SendClose(int, time.Time) error             { return io.ErrClosedPipe }
func (c *deadConn) LastReceived() time.Duration                { return time.Second }
func (c *deadConn) Age() time.Duration                         { return time.Second }
func (c *deadConn) CloseNow()                                  { c.once.Do(func() { close(c.done) }) }

func TestAConnectionThatTheRegistryRefusesEndsAlsoWhenItsPeerIsGone(t *testing.T) {
	h := start(t, hub.Options{})
	first := hubtest.Connect(t, h, hubtest.Options{ConnectionID: "taken"})
	if _, err := first.Invoke("EchoString", []any{"x"}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		over := make(chan struct{})
		go func() {
			defer close(over)
			h.ServeConn(context.Background(), &deadConn{id: "taken", request: helloRecord(), done: make(chan struct{})}, nil)
		}()
		select {
		case <-over:
		case <-time.After(5 * time.Second):
			panic(fmt.Sprintf("connection %d is never over: Shutdown and Run would wait for it for ever", i))
		}
	}
}

// A slowSubscribe does something before it registers.
type slowSubscribe struct {
	*memory.Backplane
	delay func(channels []string) // before the registration
}

func (s *slowSubscribe) Subscribe(ctx context.Context, deliver func(string, []byte), channels ...string) error {
	if s.delay != nil {
		s.delay(channels)
	}
	return s.Backplane.Subscribe(ctx, deliver, channels...)
}

func connectMemory(t testing.TB, b *memory.Broker) *memory.Backplane {
	p := b.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func TestAJoinThatOverlapsWithTheEndLeavesNoSubscription(t *testing.T) {
	b := memory.New()
	p := connectMemory(t, b)
	observer := connectMemory(t, b)
	h := start(t, hub.Options{Backplane: p})
	for i := range 3000 {
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Send("Join", fmt.Sprint("g", i))
		if i%2 == 0 {
			time.Sleep(time.Duration(i%50) * time.Microsecond)
		}
		c.Drop()
		<-c.Over()
	}
	leaked := 0
	for i := range 3000 {
		if n, _ := observer.Receivers(context.Background(), fmt.Sprintf("Test.Hub:group:g%d", i)); n > 0 {
			leaked++
		}
	}
	if leaked > 0 {
		t.Errorf("%d subscriptions are left of %d connections that are gone", leaked, 3000)
	}
}

func TestAJoinThatOverlapsWithALeaveKeepsTheSubscriptionOfOthers(t *testing.T) {
	b := memory.New()
	p := &slowSubscribe{Backplane: connectMemory(t, b)}
	observer := connectMemory(t, b)
	h := start(t, hub.Options{Backplane: p})
	member := hubtest.Connect(t, h, hubtest.Options{})
	if _, err := member.Invoke("Join", []any{"g"}, nil); err != nil {
		t.Fatal(err)
	}
	other := hubtest.Connect(t, h, hubtest.Options{})
	if _, err := other.Invoke("EchoString", []any{"x"}, nil); err != nil {
		t.Fatal(err)
	}
	p.delay = func(channels []string) {
		if strings.HasSuffix(channels[0], ":g") { // the scheduler's choice made certain
			if err := h.RemoveFromGroup(context.Background(), other.ID(), "g"); err != nil {
				t.Error(err)
			}
			if n, _ := observer.Receivers(context.Background(), channels[0]); n != 1 {
				t.Errorf("%d instances listen for a group that has a member, want 1", n)
			}
		}
	}
	if _, err := other.Invoke("Join", []any{"g"}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAJoinThatReturnedHoldsThoughAnotherOneFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		p := &failingOnce{Backplane: connectMemory(t, b)}
		h := start(t, hub.Options{Backplane: p})
		c := hubtest.Connect(t, h, hubtest.Options{})
		if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
			t.Fatal(err)
		}
		p.armed.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		first := make(chan error, 1)
		go func() { first <- h.AddToGroup(ctx, c.ID(), "g") }()
		synctest.Wait() // waits for the confirmation
		if err := h.AddToGroup(context.Background(), c.ID(), "g"); err != nil {
			t.Fatal(err)
		}
		cancel() // the first caller gives up
		if err := <-first; err == nil {
			t.Fatal("want an error")
		}
		if err := h.Clients().Group("g").Send(context.Background(), "m", 1); err != nil {
			t.Fatal(err)
		}
		got := make(chan struct{})
		go func() {
			if m, err := c.Next(); err == nil && string(m.Target) == "m" {
				close(got)
			}
		}()
		select {
		case <-got:
		case <-time.After(time.Second):
			t.Error("AddToGroup had returned nil, and the message did not come")
		}
		c.Drop()
	})
}

// failingOnce delays the confirmation of the first registration of a group, as
// a slow Redis does: it has counted it already.
type failingOnce struct {
	*memory.Backplane
	armed atomic.Bool
}

func (f *failingOnce) Subscribe(ctx context.Context, deliver func(string, []byte), channels ...string) error {
	err := f.Backplane.Subscribe(ctx, deliver, channels...)
	if err == nil && f.armed.CompareAndSwap(true, false) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func TestGroupChangesOfAnotherInstanceKeepTheirOrder(t *testing.T) {
	b := memory.New()
	h1 := start(t, hub.Options{Backplane: connectMemory(t, b)})
	h2 := start(t, hub.Options{Backplane: connectMemory(t, b)})
	c := hubtest.Connect(t, h1, hubtest.Options{})
	if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
		t.Fatal(err)
	}

	for i := range 500 {
		group := fmt.Sprint("g", i)
		ctx, cancel := context.WithCancel(context.Background())
		added := make(chan error, 1)
		go func() { added <- h2.AddToGroup(ctx, c.ID(), group) }()
		for published := h2.Stats().Published; h2.Stats().Published == published; {
			if len(added) > 0 {
				break
			}
		}
		cancel() // the caller thinks better of it
		<-added
		if err := h2.RemoveFromGroup(context.Background(), c.ID(), group); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(50 * time.Millisecond)
	wrong := h1.Stats().Groups
	if wrong > 0 {
		t.Errorf("in %d groups of 500 the connection still is, though RemoveFromGroup came last and returned", wrong)
	}
}

func TestWhatAClientSentBeforeItsCloseIsRun(t *testing.T) {
	var ran atomic.Int32
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Act", hub.Action0(func(context.Context, *hub.Caller) error { ran.Add(1); return nil }))
	})
	for range 200 {
		c := hubtest.Connect(t, h, hubtest.Options{})
		if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
			t.Fatal(err)
		}
		c.Write(protocol.JSON{}.AppendClose(sendRecord(t, nil, "Act"), "", false))
		c.Next()
		c.HangUp()
		<-c.Over()
	}
	if n := ran.Load(); n != 200 {
		t.Errorf("%d of 200 calls that stood before the Close were run", n)
	}
}

func TestWhatAClientSentBeforeItHungUpIsRun(t *testing.T) {
	var ran atomic.Int32
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Act", hub.Action0(func(context.Context, *hub.Caller) error { ran.Add(1); return nil }))
	})
	for range 200 {
		c := hubtest.Connect(t, h, hubtest.Options{})
		if _, err := c.Invoke("EchoString", []any{"x"}, nil); err != nil {
			t.Fatal(err)
		}
		c.Write(sendRecord(t, nil, "Act"))
		c.HangUp()
		<-c.Over()
	}
	if n := ran.Load(); n != 200 {
		t.Errorf("%d of 200 calls that stood before the close frame were run", n)
	}
}

func TestABrokenRecordBehindTheHandshakeIsAnsweredLikeAnyOther(t *testing.T) {
	h := start(t, hub.Options{})
	said := 0
	for range 100 {
		c := hubtest.Connect(t, h, hubtest.Options{NoHandshake: true})
		c.Write(append(helloRecord(), "nonsense\x1e"...))
		if _, err := c.Handshake(); err == nil {
			if m, err := c.Next(); err == nil && m.Type == protocol.Close && m.AllowReconnect {
				said++
			}
		}
		c.HangUp()
		<-c.Over()
	}
	if said != 100 {
		t.Errorf("%d of 100 clients were told, want all", said)
	}
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Stuck", hub.Action0(func(context.Context, *hub.Caller) error { close(entered); <-release; return nil }))
	})
	c := hubtest.Connect(t, h, hubtest.Options{})
	c.Send("Stuck")
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(ctx) }()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		t.Error("Shutdown is still there 3 s after its context ended")
	}
	close(release)
	c.Drop()
}

type strictConn struct {
	deadConn
	sending atomic.Int32
	overlap atomic.Bool
	piece   chan []byte
}

func (c *strictConn) Receive() ([]byte, error) {
	select {
	case p := <-c.piece:
		return p, nil
	case <-c.done:
		return nil, errors.New("dropped")
	}
}
func (c *strictConn) Send([]*transport.Message, time.Time) error {
	if c.sending.Add(1) > 1 {
		c.overlap.Store(true)
	}
	time.Sleep(time.Second) // a slow reader
	c.sending.Add(-1)
	return nil
}
func (c *strictConn) SendClose(int, time.Time) error { return nil }
func (c *strictConn) Age() time.Duration             { return 0 }

func TestARefusedHandshakeIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{HandshakeTimeout: time.Second})
		c := &strictConn{piece: make(chan []byte, 1)}
		c.done, c.id = make(chan struct{}), "x"
		over := make(chan struct{})
		go func() { defer close(over); h.ServeConn(context.Background(), c, nil) }()
		time.Sleep(900 * time.Millisecond)
		c.piece <- []byte("nonsense\x1e")
		<-over
		if c.overlap.Load() {
			t.Error("two goroutines called Send at once")
		}
	})
}
