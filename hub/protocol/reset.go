package protocol

// maxKept is how many arguments, stream ids or headers a Message keeps room
// for between two records, so that one odd record does not hold memory for
// the life of its connection.
const maxKept = 64

// Reset empties m, so that it holds on to no record, and keeps little room for
// the next one. Parse does it by itself; a reader that is about to idle calls
// it to let go of its buffer.
func (m *Message) Reset() {
	*m = Message{
		Arguments: emptied(m.Arguments),
		StreamIDs: emptied(m.StreamIDs),
		Headers:   emptied(m.Headers),
	}
}

func emptied[E any](s []E) []E {
	if cap(s) > maxKept {
		return nil
	}
	clear(s)
	return s[:0]
}
