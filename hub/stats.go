package hub

import "sync/atomic"

// counters are the hub's running counts.
type counters struct {
	opened          atomic.Uint64
	invocations     atomic.Uint64
	failed          atomic.Uint64
	records         atomic.Uint64
	strays          atomic.Uint64
	claimsAlone     atomic.Uint64
	streamed        atomic.Uint64
	detached        atomic.Uint64
	resumed         atomic.Uint64
	uploadWaits     atomic.Uint64
	uploadsStalled  atomic.Uint64
	sent            atomic.Uint64
	dropped         atomic.Uint64
	published       atomic.Uint64
	received        atomic.Uint64
	malformed       atomic.Uint64
	transcoded      atomic.Uint64
	refusedCommands atomic.Uint64
	byProtocol      [maxProtocols]atomic.Int64
	ends            [16]atomic.Uint64 // by the index in disconnectReasons
}

func (s *counters) countEnd(d *Disconnect) {
	for i, reason := range disconnectReasons() {
		if reason == d {
			s.ends[i].Add(1)
			return
		}
	}
}

// Stats is a snapshot of a hub's counts, since its start unless they say
// otherwise.
type Stats struct {
	Connections int // now
	Groups      int // now, those with members here
	Users       int // now, those with connections here
	QueuedBytes int // now, distinct bytes waiting for clients

	Opened      uint64            // connections after their handshake
	Disconnects map[string]uint64 // ended connections by Disconnect.Reason

	Records        uint64 // received from clients
	Invocations    uint64 // calls run
	FailedCalls    uint64 // of those, answered with an error
	StrayAnswers   uint64 // completions and items that nobody asked for
	SocketsLost    uint64 // of connections with stateful reconnects
	SocketsResumed uint64 // of those, replaced by another
	StreamItems    uint64 // sent by streaming methods
	UploadWaits    uint64 // times that a reader waited because uploads were not read
	UploadsStalled uint64 // of those, ended with ErrUploadStalled
	PendingResults int    // now, client results that are waited for here
	MessagesSent   uint64 // handed to transports
	MessagesUnsent uint64 // queued for connections that ended first

	Published       uint64 // to the backplane
	Received        uint64 // from the backplane
	Malformed       uint64 // of those, not understood
	Transcoded      uint64 // made for a protocol the sender left out
	ClaimsAlone     uint64 // tokens that were accepted without asking the fleet, which was away
	RefusedCommands uint64 // group changes and client results for other instances dropped for their number
}

// Stats returns a snapshot of the counts.
func (h *Hub) Stats() Stats {
	s := Stats{
		QueuedBytes: int(h.queuedBytes.Load()), Opened: h.stats.opened.Load(), Disconnects: map[string]uint64{},
		Records: h.stats.records.Load(), Invocations: h.stats.invocations.Load(), FailedCalls: h.stats.failed.Load(),
		StrayAnswers: h.stats.strays.Load(), MessagesSent: h.stats.sent.Load(), MessagesUnsent: h.stats.dropped.Load(),
		SocketsLost: h.stats.detached.Load(), SocketsResumed: h.stats.resumed.Load(),
		StreamItems: h.stats.streamed.Load(), UploadWaits: h.stats.uploadWaits.Load(),
		UploadsStalled: h.stats.uploadsStalled.Load(), PendingResults: h.questions.count(),
		Published: h.stats.published.Load(), Received: h.stats.received.Load(), Malformed: h.stats.malformed.Load(),
		ClaimsAlone: h.stats.claimsAlone.Load(),
		Transcoded:  h.stats.transcoded.Load(), RefusedCommands: h.stats.refusedCommands.Load(),
	}
	s.Connections, s.Groups, s.Users = h.registry.counts()
	for i, d := range disconnectReasons() {
		s.Disconnects[d.reason] = h.stats.ends[i].Load()
	}
	return s
}
