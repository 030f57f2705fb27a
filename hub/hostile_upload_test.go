package hub_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/hubtest"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// Items of an ended connection reach the method of another connection.
func TestAnotherConnectionNeverReadsAnEndedOnesUpload(t *testing.T) {
	release := make(chan struct{})
	h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
		h.Handle("Wait", hub.Action0(func(ctx context.Context, _ *hub.Caller) error { <-ctx.Done(); return nil }))
	})
	close(release)
	p := protocol.JSON{}
	for i := range 200 {
		before := h.Stats().Records
		x := hubtest.Connect(t, h, hubtest.Options{})
		x.Send("Wait")
		x.Send("Wait")
		b, err := p.AppendInvocation(nil, "1", "Concat", nil, "u")
		x.Write(record(t, b, err))
		item(t, x, p, "u", "secret of X")
		x.Write(p.AppendVoid(nil, "u"))
		for h.Stats().Records < before+5 { // let it arrive
			runtime.Gosched()
		}
		x.Drop()
		<-x.Over()
		y := hubtest.Connect(t, h, hubtest.Options{})
		b, err = p.AppendInvocation(nil, "1", "Concat", nil, "v")
		y.Write(record(t, b, err))
		item(t, y, p, "v", "of Y")
		y.Write(p.AppendVoid(nil, "v"))
		got := make(chan string, 1)
		go func() {
			m, err := y.Next()
			if err != nil {
				got <- err.Error()
				return
			}
			got <- string(m.Value) + string(m.Error)
		}()
		select {
		case s := <-got:
			if s != `"of Y"` {
				t.Fatalf("round %d: Y's method read %q", i, s)
			}
		case <-time.After(3 * time.Second):
			y.Drop()
			<-got
			t.Fatalf("round %d: Y's method reads for ever", i)
		}
		y.Drop()
		<-y.Over()
	}
}

// The reader is not woken when the method takes an item out of a buffer
// that is exactly full.
func TestAReaderGoesOnWhenTheMethodReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var failure error
		var n int
		h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
			h.Handle("Never", hub.Action1(func(ctx context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-ctx.Done()
				return nil
			}))
			h.Handle("Later", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-release
				for _, err := range in.All() {
					if err != nil {
						failure = err
						return err
					}
					n++
				}
				return nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		b, err := p.AppendInvocation(nil, "1", "Never", nil, "a")
		c.Write(record(t, b, err))
		b, err = p.AppendInvocation(nil, "2", "Later", nil, "b")
		c.Write(record(t, b, err))
		large := strings.Repeat("x", 30<<10)
		for range 10 + 34 { // fills A's buffer and the backlog
			item(t, c, p, "a", large)
		}
		for range 11 {
			item(t, c, p, "b", large)
		}
		c.Write(p.AppendVoid(nil, "b"))
		synctest.Wait() // the reader waits for room for B's 11th item
		began := time.Now()
		close(release) // B's method reads everything at once
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.HasError || n != 11 || time.Since(began) != 0 {
			t.Errorf("%d of 11 items, %q (%v), after %v; waits %d stalled %d", n, m.Error, failure, time.Since(began), h.Stats().UploadWaits, h.Stats().UploadsStalled)
		}
	})
}

// An item that does not fit ends the stream, and nobody wakes the reader.
func TestAReaderGoesOnWhenTheStreamFailsToBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := start(t, hub.Options{}, streams, func(h *hub.Hub) {
			h.Handle("Never", hub.Action1(func(ctx context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
				<-ctx.Done()
				return nil
			}))
			h.Handle("Later", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[int]) error {
				<-release
				for _, err := range in.All() {
					return err
				}
				return nil
			}))
		})
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		b, err := p.AppendInvocation(nil, "1", "Never", nil, "a")
		c.Write(record(t, b, err))
		b, err = p.AppendInvocation(nil, "2", "Later", nil, "b")
		c.Write(record(t, b, err))
		large := strings.Repeat("x", 30<<10)
		for range 10 + 34 {
			item(t, c, p, "a", large)
		}
		for range 11 {
			item(t, c, p, "b", large)
		}
		synctest.Wait()
		began := time.Now()
		close(release)
		if m, err := c.Next(); err != nil || !m.HasError {
			t.Fatal(err, m)
		}
		if _, err := c.Invoke("EchoString", []any{"behind"}, nil); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the connection stood still for %v although the call was over; stalled %d", d, h.Stats().UploadsStalled)
		}
	})
}

// Streams that have ended but whose completion waits for a client that
// does not read are not counted, and pile up without bound.
func TestEndedStreamsOfAClientThatDoesNotReadAreBounded(t *testing.T) {
	for _, mode := range []string{"stream", "upload"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, hub.Options{OutboundMessages: 400}, streams, func(h *hub.Hub) {
					h.Handle("Done", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error { return nil }))
				})
				p := protocol.JSON{}
				c := hubtest.Connect(t, h, hubtest.Options{})
				before := runtime.NumGoroutine()
				const n = 20_000
				go func() {
					for i := range n {
						if mode == "stream" {
							openStream(t, c, p, strconv.Itoa(i), "Count", []any{0})
						} else {
							b, err := p.AppendInvocation(nil, strconv.Itoa(i), "Done", nil, "u")
							c.Write(record(t, b, err))
						}
					}
				}()
				time.Sleep(time.Second)
				synctest.Wait()
				if g := runtime.NumGoroutine() - before; g > 1000 {
					t.Errorf("%d goroutines after %d records of a client that does not read", g, h.Stats().Records)
				}
				c.Drop()
			})
		})
	}
}

// A goroutine that still reads when the method returns sees a whole
// stream.
func TestAnUploadCutShortByItsMethodsEndIsNotSeenAsWhole(t *testing.T) {
	ended := make(chan error, 1)
	reading := make(chan struct{})
	h := start(t, hub.Options{}, func(h *hub.Hub) {
		h.Handle("Leave2", hub.Action1(func(_ context.Context, _ *hub.Caller, in *hub.Upload[string]) error {
			go func() {
				var last error
				for _, err := range in.All() {
					if last == nil && err == nil {
						close(reading)
					}
					last = err
				}
				ended <- last
			}()
			<-reading
			return nil
		}))
	})
	p := protocol.JSON{}
	c := hubtest.Connect(t, h, hubtest.Options{})
	b, err := p.AppendInvocation(nil, "1", "Leave2", nil, "u")
	c.Write(record(t, b, err))
	item(t, c, p, "u", "first of many")
	if err := <-ended; err == nil {
		t.Error("the stream ended as if the client had completed it")
	}
}

// A client that leaves politely in the middle of an upload.
func TestAPoliteEndEndsUploadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{}, streams)
		p := protocol.JSON{}
		c := hubtest.Connect(t, h, hubtest.Options{})
		b, err := p.AppendInvocation(nil, "1", "Concat", nil, "u")
		c.Write(record(t, b, err))
		item(t, c, p, "u", "a")
		synctest.Wait()
		began := time.Now()
		c.HangUp()
		<-c.Over()
		if d := time.Since(began); d != 0 {
			t.Errorf("the end took %v, waiting for items that cannot come", d)
		}
	})
}
