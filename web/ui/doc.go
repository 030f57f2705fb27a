// Package ui serves the dashboard: one page that is a SignalR client of the
// server's own hubs, with its scripts, styles and libraries embedded.
//
// What it serves:
//
//	/                    the page
//	/assets/…            its scripts, style and icon
//	/assets/config.json  what the page must know: hubs, version, demo groups, targets
//	/vendor/…            the official SignalR client and its licences
//
// Every answer carries a Content-Security-Policy that allows nothing but this
// origin's own files and sockets, no inline script or style, and no framing.
// Bodies are revalidated by ETag on each use, so that a new version of the
// server is never shown with an old page.
//
// The handler is made once, holds everything in memory, starts no goroutine,
// never blocks and is safe for concurrent use. It refuses methods other than
// GET and HEAD (405) and paths it does not know (404). It authenticates nobody:
// the files are the same for everyone, and what a visitor may do is decided by
// the hub the page connects to.
package ui
