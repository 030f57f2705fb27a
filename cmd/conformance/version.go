package main

import (
	"context"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// lenientJSON is JSON in versions that do not exist yet.
type lenientJSON struct{ protocol.JSON }

// maxLenientVersion is the newest version that lenientJSON takes.
const maxLenientVersion = 1000

// IsVersionSupported says whether a client may speak that version.
func (lenientJSON) IsVersionSupported(version int) bool { return version <= maxLenientVersion }

// registerVersionHub adds the methods of the hub that speaks lenientJSON.
func registerVersionHub(h *hub.Hub) {
	h.Handle("Echo", hub.Func1(echo[*string]))
	h.Handle("NewProtocolMethodServer", hub.Action0(func(ctx context.Context, from *hub.Caller) error {
		return from.Clients().Caller().Send(ctx, "NewProtocolMethodClient")
	}))
}
