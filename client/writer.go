package client

import (
	"fmt"
	"time"
)

// write writes what is put into out, several records at a time, and pings when
// there is nothing else. It ends with its attachment, and after the last
// record of the session.
func (s *session) write(a *attachment) {
	defer close(a.written)
	stuck := time.AfterFunc(time.Hour, func() { s.lose(a, ErrWriteTimeout) })
	stuck.Stop()
	ping := s.protocol.AppendPing(nil)
	interval := s.client.opts.KeepAliveInterval
	idle := time.NewTimer(interval)
	defer idle.Stop()
	if s.door.transport.quiet() {
		ping = nil
		idle.Stop()
	}
	s.out.force(ping) // servers time out only those who have pinged
	var batch []byte
	for {
		last := false
		select {
		case <-s.done:
			if !s.ending.polite {
				return
			}
			last = true
			if s.ending.sayClose {
				s.out.force(s.protocol.AppendClose(nil, "", false))
			}
		case <-a.broken:
			return
		case <-s.out.wake:
		case <-idle.C:
			s.out.force(ping)
		}
		if batch = s.out.take(batch); len(batch) > 0 {
			stuck.Reset(s.writeLimit())
			err := a.conn.write(batch)
			stuck.Stop()
			if err != nil {
				s.endWriter(a, err)
				return
			}
			if ping != nil {
				idle.Reset(interval)
			}
		}
		if last {
			return
		}
	}
}

// writeLimit is how long one write may take. A post waits for an answer, which
// servers delay when they are busy.
func (s *session) writeLimit() time.Duration {
	if s.door.transport == WebSockets {
		return writeTimeout
	}
	return requestTimeout
}

// endWriter breaks the attachment off after a write error, unless the reader
// does: what the server sent before the connection broke may say why, and
// whether the client may come back.
func (s *session) endWriter(a *attachment, err error) {
	grace := time.NewTimer(readerGrace)
	defer grace.Stop()
	select {
	case <-s.done:
	case <-a.broken:
	case <-grace.C:
		s.lose(a, fmt.Errorf("client: write: %w", err))
	}
}
