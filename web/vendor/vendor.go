package vendor

import "embed"

//go:embed signalr.min.js signalr-protocol-msgpack.min.js LICENSE.signalr.txt LICENSE.msgpack.txt
var files embed.FS

//go:embed SHA256SUMS
var sums string

// Names of the embedded files.
const (
	SignalR        = "signalr.min.js"                  // sets the global signalR
	MessagePack    = "signalr-protocol-msgpack.min.js" // sets signalR.protocols.msgpack; load it after SignalR
	SignalRLicense = "LICENSE.signalr.txt"             // covers SignalR and MessagePack
	MsgpackLicense = "LICENSE.msgpack.txt"             // covers @msgpack/msgpack, bundled in MessagePack
)

// Names returns the names of all embedded files, scripts first, as a new slice.
func Names() []string {
	return []string{SignalR, MessagePack, SignalRLicense, MsgpackLicense}
}

// Files returns the file system that holds the files of [Names] at its root.
// It is read-only and safe for concurrent use.
func Files() embed.FS { return files }
