package hub

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

type clockConn struct {
	nullConn
	clock *atomic.Int64
}

func (c clockConn) Age() time.Duration   { return time.Duration(c.clock.Load()) }
func (clockConn) CloseNow()              {}
func (c clockConn) Kind() transport.Kind { return transport.LongPolling }

func TestAReaderThatGoesOnIsNotTimedOut(t *testing.T) {
	h := newTestHub(t)
	var clock atomic.Int64
	clock.Store(1)
	c := h.newConn(context.Background(), clockConn{clock: &clock}, nil, 0)
	c.out.writing = true
	c.pinged.Store(true)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default: // what dispatch does while the queue is full for a minute
			}
			c.blocked.Store(true)
			clock.Add(int64(time.Minute))
			c.touch()
			c.blocked.Store(false)
		}
	})
	for range 400000 {
		h.check(c)
	}
	close(stop)
	reader.Wait()
	if c.closing.Load() != 0 {
		t.Error("timed out though its reader was waiting, or had just gone on")
	}
}
