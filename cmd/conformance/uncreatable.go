package main

import (
	"context"

	"github.com/switchboard-hub/switchboard/hub"
)

// registerUncreatable makes a hub fail every connection.
func (h *host) registerUncreatable(to *hub.Hub) {
	to.OnConnected(func(context.Context, *hub.Caller) error { return invalidOperation(h.cfg.uncreatable) })
}
