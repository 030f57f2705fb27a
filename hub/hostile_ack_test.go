package hub_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// readAll reads n more messages without acknowledging any.
func (r *resumer) readAll(n int) {
	r.t.Helper()
	for range n {
		if err := r.next(); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *resumer) inOrder() {
	r.t.Helper()
	for i, v := range r.got {
		if v, _, _ = strings.Cut(v, " "); v != strconv.Itoa(i) {
			r.t.Fatalf("message %d is %q", i, v)
		}
	}
}

// TestAnAckRightBehindAReattachLosesNothing: the client acknowledges right behind its Sequence what it has.
func TestAnAckRightBehindAReattachLosesNothing(t *testing.T) {
	h := start(t, hub.Options{})
	r := newResumer(t, h, protocol.JSON{}, "")
	n := 0
	for range 1000 {
		for range 3 {
			h.Clients().All().Send(t.Context(), "m", strconv.Itoa(n))
			n++
		}
		r.readAll(n - len(r.got) - 1)
		r.Cut()
		r.waiting = true
		b := r.proto.AppendSequence(nil, 1)
		b = r.proto.AppendAck(b, r.received)
		r.Write(b) // waits in the new socket
		r.Reattach()
		r.readAll(n - len(r.got))
		r.inOrder()
	}
}

// TestAnAckAmidTheRecordsSentAgainLosesNothing: the client acknowledges what it has while the hub is still sending it again.
func TestAnAckAmidTheRecordsSentAgainLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hub.Options{StatefulReconnectBufferSize: 4 << 20})
		r := newResumer(t, h, protocol.JSON{}, "")
		n := 0
		send := func(k int) {
			for range k {
				h.Clients().All().Send(t.Context(), "m", fmt.Sprintf("%d %s", n, strings.Repeat("x", 1000)))
				n++
			}
		}
		send(3000)
		r.readAll(n)
		r.Cut()
		r.waiting = true
		r.Reattach()
		r.Write(r.proto.AppendSequence(nil, 1))
		synctest.Wait() // the writer is in the middle
		r.ack()
		synctest.Wait()
		send(10)
		r.readAll(10)
		r.inOrder()
		r.Cut()
		r.waiting = true
		r.Reattach()
		send(10)
		r.readAll(10)
		r.inOrder()
		r.ack()
		synctest.Wait()
		if q := h.Stats().QueuedBytes; q != 0 {
			t.Errorf("%d bytes are left", q)
		}
	})
}
