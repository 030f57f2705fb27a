package hub_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

func TestAcksForAClientThatDoesNotReadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		r := newResumer(t, h, protocol.JSON{}, "")
		for range 100 { // the writer waits for the client
			h.Clients().All().Send(t.Context(), "m", strings.Repeat("x", 10))
			synctest.Wait()
		}
		before := h.Stats().QueuedBytes
		const n = 100_000
		var b []byte
		for range 100 {
			b, _ = r.proto.AppendStreamItem(b, "nobody", 1)
		}
		for range n / 100 {
			r.Write(b)
		}
		synctest.Wait()
		if got := h.Stats().QueuedBytes - before; got > 10_000 {
			t.Errorf("%d bytes of Acks wait after %d records", got, n)
		}
		r.Drop()
		<-r.Over()
		synctest.Wait()
		if q := h.Stats().QueuedBytes; q != 0 {
			t.Errorf("%d bytes queued at the end", q)
		}
	})
}

func TestAnAckComesEverySixteenKilobytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{})
		r := newResumer(t, h, protocol.JSON{}, "")
		go func() {
			for {
				m, err := r.Next()
				if err != nil {
					return
				}
				if m.Type == protocol.Ack {
					r.acks++
				}
			}
		}()
		total := 0
		for range 2000 {
			b, _ := r.proto.AppendStreamItem(nil, "nobody", strings.Repeat("x", 50))
			total += len(b)
			r.Write(b)
			synctest.Wait()
		}
		if most := total/(16<<10) + 2; r.acks > most {
			t.Errorf("%d acks for %d bytes, want at most %d", r.acks, total, most)
		}
		r.Drop()
		<-r.Over()
	})
}

// TestResumeStormLeavesNothing: cuts, Acks of every kind, ends of every kind.
// Nothing is lost or repeated for an honest client, and nothing is left.
func TestResumeStormLeavesNothing(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			h := start(t, hub.Options{StatefulReconnectBufferSize: 1500 + rnd.IntN(3000)}, streams, func(h *hub.Hub) {
				h.Handle("Abort", hub.Action0(func(_ context.Context, c *hub.Caller) error { c.Abort(); return nil }))
			})
			p := protocols()[seed%2]
			r := newResumer(t, h, p, "")
			n := 0
			send := func() {
				h.Clients().Client(r.ID()).Send(context.Background(), "m", strconv.Itoa(n))
				n++
			}
			for range 100 {
				for range rnd.IntN(20) {
					send()
				}
				switch rnd.IntN(5) {
				case 0:
					for len(r.got) < n-rnd.IntN(30) {
						if err := r.next(); err != nil {
							t.Fatal(err)
						}
						if rnd.IntN(2) == 0 {
							r.ack()
						}
					}
					r.ack()
				case 1:
					r.Cut()
					for range rnd.IntN(100) {
						runtime.Gosched()
					}
					r.resume()
					r.Write(p.AppendAck(nil, 0))
				case 2:
					r.Write(p.AppendAck(nil, 0))
					r.Write(p.AppendAck(nil, -5))
					r.Write(p.AppendAck(nil, math.MinInt64))
				case 3:
					r.send("Join", strconv.Itoa(rnd.IntN(5)))
				case 4:
					b, _ := p.AppendStreamItem(nil, "nobody", 1)
					r.sent = append(r.sent, b)
					r.Write(b)
				}
			}
			for len(r.got) < n {
				if err := r.next(); err != nil {
					t.Fatal(err)
				}
				r.ack()
			}
			for i, v := range r.got {
				if v != strconv.Itoa(i) {
					t.Fatalf("message %d is %q", i, v)
				}
			}
			switch rnd.IntN(4) {
			case 0:
				r.Cut()
				r.Drop()
			case 1:
				r.HangUp()
			case 2:
				r.send("Abort")
				r.Drop()
			case 3:
				r.Write(p.AppendClose(nil, "", false))
				r.Drop()
			}
			<-r.Over()
			if s := h.Stats(); s.QueuedBytes != 0 || s.Connections != 0 {
				t.Errorf("left: %d bytes, %d connections", s.QueuedBytes, s.Connections)
			}
		})
	}
}

// TestHostileAcksLeaveNothing: Acks beyond everything that was sent, in every
// state of the connection.
func TestHostileAcksLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{StatefulReconnectBufferSize: 500})
		r := newResumer(t, h, protocol.JSON{}, "")
		for round := range 50 {
			for range 30 {
				h.Clients().All().Send(t.Context(), "m", strings.Repeat("x", 60))
			}
			synctest.Wait()
			switch round % 4 {
			case 0:
				r.Write(r.proto.AppendAck(nil, math.MaxInt64))
			case 1:
				r.Cut()
				if !r.Reattach() {
					t.Fatal("refused")
				}
				r.Write(r.proto.AppendAck(nil, math.MaxInt64))
			case 2:
				r.Cut()
				if !r.Reattach() {
					t.Fatal("refused")
				}
				r.Write(r.proto.AppendSequence(nil, 0))
				r.Write(r.proto.AppendSequence(nil, -7))
				r.Write(r.proto.AppendSequence(nil, math.MinInt64))
				r.Write(r.proto.AppendSequence(nil, 1))
				r.Write(r.proto.AppendAck(nil, int64(round)))
			}
			synctest.Wait()
		}
		r.Write(r.proto.AppendAck(nil, math.MaxInt64))
		synctest.Wait()
		r.Drop()
		<-r.Over()
		synctest.Wait()
		if s := h.Stats(); s.QueuedBytes != 0 {
			t.Errorf("left: %d bytes", s.QueuedBytes)
		}
	})
}

func TestEndsWhileDetachedOrPaused(t *testing.T) {
	for _, state := range []string{"paused", "detached", "blocked", "resumed"} {
		for _, how := range []string{"abort", "shutdown", "slow", "drop", "hangup"} {
			t.Run(state+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					callers := make(chan *hub.Caller, 1)
					h := start(t, hub.Options{StatefulReconnectBufferSize: 500, OutboundMessages: 1000}, func(h *hub.Hub) {
						h.OnConnected(func(_ context.Context, c *hub.Caller) error { callers <- c; return nil })
					})
					r := newResumer(t, h, protocol.JSON{}, "")
					caller := <-callers
					synctest.Wait()
					for range 100 {
						h.Clients().All().Send(t.Context(), "m", strings.Repeat("x", 60))
						if state == "blocked" {
							r.Write(r.proto.AppendAck(nil, math.MaxInt64))
						}
						synctest.Wait()
					}
					switch state {
					case "detached":
						r.Cut()
						synctest.Wait()
					case "resumed":
						r.Cut()
						r.Reattach()
					}
					began := time.Now()
					switch how {
					case "abort":
						caller.Abort()
					case "shutdown":
						go h.Shutdown(t.Context())
					case "slow":
						for range 2000 {
							h.Clients().All().Send(t.Context(), "m", strings.Repeat("x", 60))
						}
					case "drop":
						r.Drop()
					case "hangup":
						r.HangUp()
					}
					<-r.Over()
					synctest.Wait()
					d := time.Since(began)
					limit := 6 * time.Second
					if state == "detached" && how == "hangup" {
						limit = 16 * time.Second
					}
					if d > limit {
						t.Errorf("took %v", d)
					}
					if s := h.Stats(); s.QueuedBytes != 0 || s.Connections != 0 {
						t.Errorf("left: %d bytes, %d conns", s.QueuedBytes, s.Connections)
					}
				})
			})
		}
	}
}

func TestHubtestManyCuts(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("hubtest panics: %v", p)
		}
	}()
	h := start(t, hub.Options{})
	r := newResumer(t, h, protocol.JSON{}, "")
	for range 100 {
		r.Cut()
		r.resume()
		r.Cut()
		r.resume()
	}
	h.Clients().All().Send(t.Context(), "m", "x")
	if err := r.next(); err != nil {
		t.Fatal(err)
	}
}
