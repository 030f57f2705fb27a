package hub

import "github.com/switchboard-hub/switchboard/hub/transport"

// sendHere queues a message for one connection of this instance. The id is
// that of a question, empty where no answer is wanted.
func (h *Hub) sendHere(c *conn, id, target string, args []any) error {
	m := h.replyMessage()
	buf, err := c.protocol.AppendInvocation(m.Buffer(), id, target, args)
	if err != nil {
		return err
	}
	m.Reset(buf, c.protocol.Binary())
	h.track(m)
	m.Retain(1)
	if _, took := c.enqueue(m); !took {
		m.Release(1)
	}
	return nil
}

// sendTo encodes a message once per protocol in use and queues it for a set.
func (h *Hub) sendTo(s *set, excluded []string, target string, args []any) error {
	var p prepared
	defer p.release()
	for i, proto := range h.opts.Protocols {
		// A connection that counts only later joined after this send began.
		if h.stats.byProtocol[i].Load() == 0 {
			continue
		}
		buf, err := proto.AppendInvocation(transport.BeginMessage(encodeGuess), "", target, args)
		if err != nil {
			return err
		}
		p[i] = h.newMessage(buf, proto.Binary())
	}
	h.noteBacklog(s.deliver(&p, excluded))
	return nil
}

// encodeGuess is the room first taken for an encoded message, in bytes.
const encodeGuess = 128

// noteBacklog remembers that writers are behind, so that the next method to
// end gives them a turn.
func (h *Hub) noteBacklog(longest int) {
	if longest > yieldAbove {
		h.behind.Store(true)
	}
}

// newMessage makes a message with one reference, counted in queuedBytes until
// the last is released.
func (h *Hub) newMessage(buf []byte, binaryFormat bool) *transport.Message {
	m := transport.EndMessage(buf, binaryFormat)
	m.OnFree(h.untrack)
	m.Retain(1)
	h.track(m)
	return m
}

func (h *Hub) track(m *transport.Message)   { h.queuedBytes.Add(int64(m.Size())) }
func (h *Hub) untrack(m *transport.Message) { h.queuedBytes.Add(-int64(m.Size())) }

// replyKeep is the largest buffer that a reused reply keeps, in bytes.
const replyKeep = 4096

// replyMessage returns a message for one receiver, to be reused once written.
func (h *Hub) replyMessage() *transport.Message { return h.replies.Get().(*transport.Message) }

func (h *Hub) makeReply() any {
	m := &transport.Message{}
	m.OnFree(func(m *transport.Message) {
		h.untrack(m)
		if m.Size() <= replyKeep {
			h.replies.Put(m)
		}
	})
	return m
}
