package transport

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// A posted is the half of a Conn that receives what its client POSTs; event
// streams and long polling have it in common.
type posted struct {
	// fixed
	rec    *record
	start  time.Time
	remote string
}

// newPosted is that of the connection which the request begins.
func newPosted(rec *record, r *http.Request) posted {
	return posted{rec: rec, start: time.Now(), remote: r.RemoteAddr}
}

func (p *posted) ID() string         { return p.rec.id }
func (p *posted) RemoteAddr() string { return p.remote }
func (p *posted) Age() time.Duration { return time.Since(p.start) }

// LastReceived counts polls, too.
func (p *posted) LastReceived() time.Duration { return p.rec.inbox.lastReceived(p.start) }

func (p *posted) Receive() ([]byte, error) {
	piece, err := p.rec.inbox.receive()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("transport: receive: %w", err)
	}
	return piece, err
}
