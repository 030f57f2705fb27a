package protocol

// maxKept is how many arguments, stream ids or headers a Message keeps room
// for between two records, so that one odd record does not hold memory for
// the life of its connection.
const maxKept = 64

// Reset empties m, so that it holds on to no record, and keeps a little room
// for the next one. Parse does it by itself; a reader that is about to idle
// calls it to let go of its buffer.
func (m *Message) Reset() {
	m.Type, m.AllowReconnect, m.SequenceID = 0, false, 0
	m.InvocationID, m.Target = nil, nil
	m.Value, m.HasValue = nil, false
	m.Error, m.HasError = nil, false
	m.Arguments = emptied(m.Arguments)
	m.StreamIDs = emptied(m.StreamIDs)
	m.Headers = emptied(m.Headers)
}

func emptied[E any](s []E) []E {
	if cap(s) > maxKept {
		return nil
	}
	clear(s)
	return s[:0]
}
