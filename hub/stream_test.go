package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// namedError is an error with a type name.
type namedError struct{ name, text string }

func (e namedError) Error() string    { return e.text }
func (e namedError) TypeName() string { return e.name }

// streams registers methods that stream in every way.
func streams(h *hub.Hub) {
	h.Handle("Count", hub.Stream1(func(ctx context.Context, _ *hub.Caller, n int) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
		}, nil
	}))
	h.Handle("Forever", hub.Stream0(func(ctx context.Context, c *hub.Caller) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) {
			for i := 0; yield(i, nil); i++ {
			}
		}, nil
	}))
	h.Handle("Silent", hub.Stream0(func(ctx context.Context, c *hub.Caller) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) { <-ctx.Done() }, nil
	}))
	h.Handle("FailBefore", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) {
		return nil, namedError{"InvalidOperationException", "before"}
	}))
	h.Handle("FailMidway", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) {
			if yield(1, nil) {
				yield(0, namedError{"InvalidOperationException", "midway"})
			}
		}, nil
	}))
	h.Handle("PanicMidway", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) {
		return func(yield func(int, error) bool) { panic("secret") }, nil
	}))
	h.Handle("Broken", hub.Stream0(func(context.Context, *hub.Caller) (iter.Seq2[int, error], error) { return nil, nil }))
	h.Handle("Concat", hub.Func1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) (string, error) {
		var b strings.Builder
		for s, err := range in.All() {
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		}
		return b.String(), nil
	}))
	h.Handle("EchoStream", hub.Stream2(func(_ context.Context, _ *hub.Caller, prefix string, in *hub.Upload[string]) (iter.Seq2[string, error], error) {
		return func(yield func(string, error) bool) {
			for s, err := range in.All() {
				if !yield(prefix+s, err) || err != nil {
					return
				}
			}
		}, nil
	}))
}

// record appends one record and fails the test if that does not work.
func record(t testing.TB, b []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openStream starts a stream in either direction.
func openStream(t testing.TB, c *hubtest.Client, p protocol.Protocol, id, target string, args []any, uploads ...string) {
	t.Helper()
	b, err := p.AppendStreamInvocation(nil, id, target, args, uploads...)
	c.Write(record(t, b, err))
}

func item(t testing.TB, c *hubtest.Client, p protocol.Protocol, id string, v any) {
	t.Helper()
	b, err := p.AppendStreamItem(nil, id, v)
	c.Write(record(t, b, err))
}

// collect reads the items of a stream up to its completion.
func collect(t testing.TB, c *hubtest.Client, p protocol.Protocol, id string) (items []any, errText string, hasValue bool) {
	t.Helper()
	for {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if string(m.InvocationID) != id {
			t.Fatalf("type %d for %q, want %q", m.Type, m.InvocationID, id)
		}
		if m.Type == protocol.Completion {
			return items, string(m.Error), m.HasValue
		}
		v, err := protocol.Decode[any](p, m.Value)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, v)
	}
}

func TestStreamsToTheClient(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			h := start(t, hub.Options{EnableDetailedErrors: true}, streams)
			c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
			for _, tt := range []struct {
				target string
				args   []any
				items  string
				err    string
			}{
				{"Count", []any{3}, "[0 1 2]", ""},
				{"count", []any{0}, "[]", ""},
				{"FailBefore", nil, "[]", "An unexpected error occurred invoking 'FailBefore' on the server. InvalidOperationException: before"},
				{"FailMidway", nil, "[1]", "An error occurred on the server while streaming results. InvalidOperationException: midway"},
				{"Broken", nil, "[]", "The value returned by the streaming method 'Broken' is not a ChannelReader<> or IAsyncEnumerable<>."},
				{"EchoString", []any{"x"}, "[]", "The client attempted to invoke the non-streaming 'EchoString' method with a streaming invocation."},
				{"Nothing", nil, "[]", "Failed to invoke 'Nothing' due to an error on the server. HubException: Method does not exist."},
				{"Count", []any{1, 2}, "[]", "Failed to invoke 'Count' due to an error on the server. InvalidDataException: Invocation provides 2 argument(s) but target expects 1."},
				{"Count", []any{"x"}, "[]", "Failed to invoke 'Count' due to an error on the server. InvalidDataException: Error binding arguments. Make sure that the types of the provided values match the types of the hub method being invoked."},
			} {
				openStream(t, c, p, "s", tt.target, tt.args)
				items, errText, hasValue := collect(t, c, p, "s")
				if got := fmt.Sprint(items); got != tt.items || errText != tt.err || hasValue {
					t.Errorf("%s%v: %s, %q, result %v; want %s, %q, no result", tt.target, tt.args, got, errText, hasValue, tt.items, tt.err)
				}
			}
			if _, err := c.Invoke("Count", []any{1}, nil); err == nil || err.Error() != "The client attempted to invoke the streaming 'Count' method with a non-streaming invocation." {
				t.Errorf("plain call of a streaming method: %v", err)
			}
			c.Send("Count", 1) // no id, no answer
			if got, err := c.Invoke("EchoString", []any{"on"}, nil); err != nil || got != "on" {
				t.Errorf("the connection does not go on: %v, %v", got, err)
			}
		})
	}
}

func TestStreamErrorsKeepSecrets(t *testing.T) {
	h := start(t, hub.Options{}, streams)
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	for target, want := range map[string]string{
		"FailBefore":  "An unexpected error occurred invoking 'FailBefore' on the server.",
		"FailMidway":  "An error occurred on the server while streaming results.",
		"PanicMidway": "An error occurred on the server while streaming results.",
	} {
		openStream(t, c, p, "s", target, nil)
		if _, errText, _ := collect(t, c, p, "s"); errText != want {
			t.Errorf("%s: %q, want %q", target, errText, want)
		}
	}
}

func TestACancelledStreamEndsWithoutAnError(t *testing.T) {
	for _, p := range protocols() {
		for _, target := range []string{"Forever", "Silent"} {
			t.Run(p.Name()+" "+target, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cancelStream(t, p, target) })
			})
		}
	}
}

func cancelStream(t *testing.T, p protocol.Protocol, target string) {
	h := start(t, hub.Options{}, streams)
	c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
	openStream(t, c, p, "s", target, nil)
	if target == "Forever" {
		for range 10 {
			if m, err := c.Next(); err != nil || m.Type != protocol.StreamItem {
				t.Fatalf("type %d, %v", m.Type, err)
			}
		}
	}
	c.Write(p.AppendCancelInvocation(nil, "s"))
	c.Write(p.AppendCancelInvocation(nil, "s")) // a second one changes nothing
	synctest.Wait()                             // it has arrived
	items, errText, hasValue := collect(t, c, p, "s")
	const tail = 6000 // what was written and queued before
	if len(items) > tail || errText != "" || hasValue {
		t.Errorf("%d items, then error %q, result %v; want a short tail and no error", len(items), errText, hasValue)
	}
	if got, err := c.Invoke("EchoString", []any{"next"}, nil); err != nil || got != "next" {
		t.Errorf("after the stream: %v, %v", got, err)
	}
	openStream(t, c, p, "s", "Count", []any{1}) // the id is free again
	if items, errText, _ := collect(t, c, p, "s"); len(items) != 1 || errText != "" {
		t.Errorf("the id's next stream: %v, %q", items, errText)
	}
}

func TestACancelRightBehindItsStreamIsNotLost(t *testing.T) {
	h := start(t, hub.Options{}, streams)
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	for i := range 200 {
		id := strconv.Itoa(i)
		b, err := p.AppendStreamInvocation(nil, id, "Silent", nil)
		c.Write(p.AppendCancelInvocation(record(t, b, err), id))
		if items, errText, _ := collect(t, c, p, id); len(items) > 0 || errText != "" {
			t.Fatalf("%v, %q", items, errText)
		}
	}
}

func TestARunningStreamsIDIsTaken(t *testing.T) {
	h := start(t, hub.Options{}, streams)
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	openStream(t, c, p, "s", "Silent", nil)
	openStream(t, c, p, "s", "Silent", nil)
	if _, errText, _ := collect(t, c, p, "s"); errText != "Invocation ID 's' is already in use." {
		t.Errorf("the second: %q", errText)
	}
	c.Write(p.AppendCancelInvocation(nil, "s"))
	if _, errText, _ := collect(t, c, p, "s"); errText != "" {
		t.Errorf("the first can no longer be cancelled: %q", errText)
	}
}

func TestTheStreamsOfAConnectionAreBounded(t *testing.T) {
	const limit = 5
	h := start(t, hub.Options{MaximumStreamsPerConnection: limit}, streams)
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	for i := range limit {
		openStream(t, c, p, strconv.Itoa(i), "Silent", nil)
	}
	openStream(t, c, p, "more", "Silent", nil)
	const want = "An unexpected error occurred invoking 'Silent' on the server. HubException: Too many streams on this connection."
	if _, errText, _ := collect(t, c, p, "more"); errText != want {
		t.Errorf("got %q, want %q", errText, want)
	}
	c.Write(p.AppendCancelInvocation(nil, "0"))
	collect(t, c, p, "0")
	openStream(t, c, p, "more", "Count", []any{1})
	if items, errText, _ := collect(t, c, p, "more"); len(items) != 1 || errText != "" {
		t.Errorf("a place that is free again: %v, %q", items, errText)
	}
}

func TestAStreamWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{}, streams)
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		const items = 100_000
		openStream(t, c, p, "s", "Count", []any{items})
		synctest.Wait() // the client reads nothing
		if n := h.Stats().QueuedBytes; n > 1<<20 {
			t.Errorf("%d bytes wait for a client that does not read", n)
		}
		if got, _, _ := collect(t, c, p, "s"); len(got) != items {
			t.Errorf("%d items, want %d", len(got), items)
		}
	})
}

func TestAStreamWaitsForTheCallsBeforeItToStart(t *testing.T) {
	release := make(chan struct{})
	h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
		h.Handle("Wait", hub.Action0(func(context.Context, *hub.Caller) error { <-release; return nil }))
	})
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	first := c.Begin("Wait")
	openStream(t, c, p, "beside", "Count", []any{1}) // nothing before it waits
	if items, _, _ := collect(t, c, p, "beside"); len(items) != 1 {
		t.Fatal("a stream waited for a call that runs")
	}
	second := c.Begin("Wait")
	openStream(t, c, p, "behind", "Count", []any{1})
	release <- struct{}{} // the first ends, the second starts, and so does the stream
	var order []string
	for len(order) < 2 {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == protocol.Completion {
			order = append(order, string(m.InvocationID))
		}
	}
	release <- struct{}{}
	m, err := c.Next()
	if err != nil || order[0] != first && order[0] != "behind" || string(m.InvocationID) != second {
		t.Errorf("completions of %v and then %q, %v", order, m.InvocationID, err)
	}
}

func TestUploads(t *testing.T) {
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			h := start(t, hub.Options{EnableDetailedErrors: true}, streams)
			c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
			invoke := func(id, target string, args []any, uploads ...string) {
				b, err := p.AppendInvocation(nil, id, target, args, uploads...)
				c.Write(record(t, b, err))
			}
			answered := func(id string) (any, string) {
				m, err := c.Next()
				if err != nil || m.Type != protocol.Completion || string(m.InvocationID) != id {
					t.Fatalf("type %d for %q, %v", m.Type, m.InvocationID, err)
				}
				if m.HasError {
					return nil, string(m.Error)
				}
				v, err := protocol.Decode[any](p, m.Value)
				if err != nil {
					t.Fatal(err)
				}
				return v, ""
			}
			invoke("1", "Concat", nil, "u")
			for _, s := range []string{"a", "b", "", "c"} {
				item(t, c, p, "u", s)
			}
			c.Write(p.AppendVoid(nil, "u"))
			if got, errText := answered("1"); got != "abc" || errText != "" {
				t.Errorf("got %v, %q", got, errText)
			}
			item(t, c, p, "u", "late") // nobody's any more

			invoke("2", "Concat", nil, "u") // the same id again
			item(t, c, p, "u", "a")
			c.Write(p.AppendError(nil, "u", "client text"))
			if _, errText := answered("2"); errText != "An unexpected error occurred invoking 'Concat' on the server. HubException: client text" {
				t.Errorf("an upload that fails: %q", errText)
			}

			invoke("3", "Concat", nil, "u")
			item(t, c, p, "u", 12.5)
			if _, errText := answered("3"); errText != "An unexpected error occurred invoking 'Concat' on the server. HubException: Failed to bind Stream message." {
				t.Errorf("an item of another type: %q", errText)
			}

			invoke("4", "Concat", nil, "u", "v")
			if _, errText := answered("4"); errText != "An unexpected error occurred invoking 'Concat' on the server. HubException: Client sent 2 stream(s), Hub method expects 1." {
				t.Errorf("a stream too many: %q", errText)
			}
			invoke("5", "Concat", nil)
			if _, errText := answered("5"); errText != "An unexpected error occurred invoking 'Concat' on the server. HubException: Client sent 0 stream(s), Hub method expects 1." {
				t.Errorf("no stream: %q", errText)
			}

			openStream(t, c, p, "6", "EchoStream", []any{">"}, "u")
			for i := range 100 {
				item(t, c, p, "u", strconv.Itoa(i))
			}
			c.Write(p.AppendVoid(nil, "u"))
			items, errText, _ := collect(t, c, p, "6")
			if len(items) != 100 || errText != "" || items[99] != ">99" {
				t.Errorf("both ways: %d items, %q", len(items), errText)
			}
		})
	}
}

// TestAnUploadThatIsNotReadHoldsUpNothingElse: its items wait, within bounds,
// while calls, pings and other streams go on.
func TestAnUploadThatIsNotReadHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var got int
		var failure error
		h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
			h.Handle("Later", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-release
				for _, err := range in.All() {
					if err != nil {
						failure = err
						return err
					}
					got++
				}
				return nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		b, err := p.AppendInvocation(nil, "1", "Later", nil, "u")
		c.Write(record(t, b, err))
		large := strings.Repeat("x", 30<<10)
		const fits = 30 // 10 in the buffer, 600 KB behind it
		for range fits {
			item(t, c, p, "u", large)
		}
		if v, err := c.Invoke("EchoString", []any{"meanwhile"}, nil); err != nil || v != "meanwhile" {
			t.Fatalf("a call meanwhile: %v, %v", v, err)
		}
		close(release)
		c.Write(p.AppendVoid(nil, "u"))
		if m, err := c.Next(); err != nil || m.HasError {
			t.Fatalf("%v, %q", err, m.Error)
		}
		if got != fits || failure != nil {
			t.Errorf("%d items, %v; want all %d", got, failure, fits)
		}
	})
}

func TestAnUploadThatIsNeverReadFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		release := make(chan struct{})
		h := start(t, hub.Options{ClientTimeoutInterval: 20 * time.Second}, streams, func(h *hub.Hub) {
			h.Handle("Later", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-release
				for _, err := range in.All() {
					failure = err
				}
				return failure
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		c.Write(p.AppendPing(nil))
		b, err := p.AppendInvocation(nil, "1", "Later", nil, "u")
		c.Write(record(t, b, err))
		large := strings.Repeat("x", 30<<10)
		for range 60 { // more than buffer and backlog hold
			item(t, c, p, "u", large)
		}
		began := time.Now()
		if v, err := c.Invoke("EchoString", []any{"behind"}, nil); err != nil || v != "behind" {
			t.Fatalf("a call behind the upload: %v, %v", v, err)
		}
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("the reader waited %v, want 30s", d)
		}
		close(release)
		if m, err := c.Next(); err != nil || !m.HasError {
			t.Fatalf("%v, %q", err, m.Error)
		}
		if !errors.Is(failure, hub.ErrUploadStalled) {
			t.Errorf("the method read %v, want ErrUploadStalled", failure)
		}
		if s := h.Stats(); s.UploadWaits != 1 || s.UploadsStalled != 1 {
			t.Errorf("%d waits, %d stalled; want 1 and 1", s.UploadWaits, s.UploadsStalled)
		}
	})
}

func TestAnUploadEndsWithItsConnection(t *testing.T) {
	ended := make(chan error, 1)
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Read", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
			var last error
			for _, err := range in.All() {
				last = err
			}
			ended <- last
			return last
		}))
	})
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	b, err := p.AppendInvocation(nil, "1", "Read", nil, "u")
	c.Write(record(t, b, err))
	item(t, c, p, "u", "a")
	c.Drop()
	if err := <-ended; !errors.Is(err, hub.ErrPeerGone) {
		t.Errorf("the method read %v, want the connection's end", err)
	}
	<-c.Over()
}

func TestFiltersSeeStreams(t *testing.T) {
	h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
		h.Use(hub.Filter{Invoke: func(ctx context.Context, in *hub.Invocation, next func(context.Context) (any, error)) (any, error) {
			result, err := next(ctx)
			if items, ok := result.(iter.Seq2[int, error]); ok {
				return iter.Seq2[int, error](func(yield func(int, error) bool) {
					for v, err := range items {
						if !yield(v*10, err) {
							return
						}
					}
				}), err
			}
			return result, err
		}})
	})
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	openStream(t, c, p, "s", "Count", []any{3})
	if items, errText, _ := collect(t, c, p, "s"); fmt.Sprint(items) != "[0 10 20]" || errText != "" {
		t.Errorf("got %v, %q", items, errText)
	}
	openStream(t, c, p, "s", "EchoStream", []any{"<"}, "u")
	item(t, c, p, "u", "a")
	c.Write(p.AppendVoid(nil, "u"))
	if items, errText, _ := collect(t, c, p, "s"); fmt.Sprint(items) != "[<a]" || errText != "" {
		t.Errorf("got %v, %q", items, errText)
	}
}

// TestAThousandUploadsHoldBoundedMemory: nobody reads them at first, and their
// clients send as fast as they may; then all arrive.
func TestAThousandUploadsHoldBoundedMemory(t *testing.T) {
	const clients, each, items, size = 10, 100, 30, 1 << 10
	release := make(chan struct{})
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Measure", hub.Func1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) (int, error) {
			<-release
			n := 0
			for s, err := range in.All() {
				if err != nil {
					return 0, err
				}
				n += len(s)
			}
			return n, nil
		}))
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	p := protocol.MessagePack{}
	var sending sync.WaitGroup
	all := make([]*hubtest.Client, clients)
	for i := range all {
		c := hubtest.Connect(t, h, hubtest.Options{Protocol: p})
		all[i] = c
		sending.Go(func() {
			var b []byte
			for u := range each {
				id := strconv.Itoa(u)
				b, _ = p.AppendInvocation(b, id, "Measure", nil, "u"+id)
			}
			c.Write(b)
			text := strings.Repeat("x", size)
			for range items {
				for u := range each {
					b, _ = p.AppendStreamItem(b[:0], "u"+strconv.Itoa(u), text)
					c.Write(b)
				}
			}
			b = b[:0]
			for u := range each {
				b = p.AppendVoid(b, "u"+strconv.Itoa(u))
			}
			c.Write(b)
		})
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for h.Stats().UploadWaits < clients { // every reader waits for room
		<-look.C
	}
	// 10 items of 1 KiB for each upload, and 1 MiB for each connection.
	const bound = clients * (each*10*size*3/2 + 2<<20)
	if grown := int64(heap()) - int64(before); grown > bound {
		t.Errorf("%d KiB are held, want at most %d", grown>>10, bound>>10)
	}
	close(release)
	for _, c := range all {
		for range each {
			m, err := c.Next()
			if err != nil || m.HasError {
				t.Fatalf("%v, %q", err, m.Error)
			}
			if n, err := protocol.Decode[int](p, m.Value); n != items*size || err != nil {
				t.Fatalf("%d bytes, %v; want %d", n, err, items*size)
			}
		}
	}
	sending.Wait()
}
