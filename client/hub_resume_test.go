package client_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// A cutter makes connections that can be cut.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (k *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		k.mu.Lock()
		k.conns = append(k.conns, c)
		k.mu.Unlock()
	}
	return c, err
}

// cut cuts every connection so far.
func (k *cutter) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
	k.conns = nil
}

// TestResumeWithHub cuts the socket while numbers go to the hub and back.
func TestResumeWithHub(t *testing.T) {
	_, url := serve(t)
	for _, p := range []protocol.Protocol{protocol.JSON{}, protocol.MessagePack{}} {
		t.Run(p.Name(), func(t *testing.T) {
			const n = 2000
			k := new(cutter)
			transport := &http.Transport{DialContext: k.dial}
			t.Cleanup(transport.CloseIdleConnections)
			echoed, all := make(chan int, n), make(chan struct{})
			c := connect(t, client.Options{
				URL: url, Protocol: p, StatefulReconnect: true, HTTPClient: &http.Client{Transport: transport},
				Reconnect: func(r client.Retry) (time.Duration, bool) { t.Errorf("lost: %v", r.Err); return 0, false },
			}, func(c *client.Client) {
				want := 0
				c.On("Echoed", func(a client.Args) {
					if v, err := client.Arg[int](a, 0); err != nil || v != want {
						t.Errorf("got %d, %v want %d", v, err, want)
					}
					want++
					echoed <- want
					if want == n {
						close(all)
					}
				})
			})
			id := c.ConnectionID()
			var sending sync.WaitGroup
			sending.Go(func() {
				for i := range n {
					if err := c.Send(t.Context(), "Echo", i); err != nil {
						t.Error(err)
						return
					}
				}
			})
			cuts := 0
			for running := true; running; {
				select {
				case <-all:
					running = false
				case got := <-echoed:
					if got%150 == 0 {
						cuts++
						k.cut()
					}
				}
			}
			sending.Wait()
			if sum, err := client.Invoke[int](t.Context(), c, "Add", 1, 2); err != nil || sum != 3 || c.ConnectionID() != id {
				t.Errorf("got %d, %v as %s want %s", sum, err, c.ConnectionID(), id)
			}
			if cuts < 5 {
				t.Errorf("only %d cuts", cuts)
			}
		})
	}
}
