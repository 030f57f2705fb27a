package main

import (
	"context"
	"time"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// registerUncreatable makes a hub fail every connection.
func (h *host) registerUncreatable(to *hub.Hub) {
	to.OnConnected(func(ctx context.Context, c *hub.Caller) error {
		if c.Transport() == transport.ServerSentEvents {
			awaitStart(ctx, c)
		}
		return invalidOperation(h.cfg.uncreatable)
	})
}

// How long awaitStart looks for a client's first ping, and how long that ping's
// answer may be on its way.
const (
	pingLook    = 10 * time.Millisecond
	pingWait    = 3 * time.Second
	pingAnswers = 250 * time.Millisecond
)

// awaitStart waits until a client of an event stream has started. The official
// JavaScript client posts its first ping while it starts and waits for the
// answer; a Close that comes in the meantime is lost on it: either the ping
// fails, and start with the ping's error, or start succeeds and onclose is never
// called.
func awaitStart(ctx context.Context, c *hub.Caller) {
	look := time.NewTicker(pingLook)
	defer look.Stop()
	late := time.NewTimer(pingWait)
	defer late.Stop()
	for !c.Pinged() {
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
	answered := time.NewTimer(pingAnswers)
	defer answered.Stop()
	select {
	case <-answered.C:
	case <-ctx.Done():
	}
}
