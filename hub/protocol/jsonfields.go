package protocol

// A member is one of the members that matter.
type member int

const (
	memberOther member = iota
	memberType
	memberHeaders
	memberInvocationID
	memberTarget
	memberArguments
	memberStreamIDs
	memberItem
	memberResult
	memberError
	memberAllowReconnect
	memberSequenceID
	memberCount
)

// jsonFields are the raw values of a record's members. They are judged only
// when the whole record is read, because the type may come last.
type jsonFields struct {
	body   []byte
	values [memberCount]struct{ start, end int }
}

func (f *jsonFields) has(m member) bool { return f.values[m].end > 0 }

// raw returns the raw value of a member, nil if it is absent.
func (f *jsonFields) raw(m member) []byte {
	v := f.values[m]
	if v.end == 0 {
		return nil
	}
	return f.body[v.start:v.end:v.end]
}

// scan reads the object that starts at index i of the body, splits its
// arguments into m and returns the index behind it, or -1.
func (f *jsonFields) scan(i int, m *Message) int {
	b := f.body
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		name, end := scanMember(b, i)
		start := end + 1
		if end < 0 || start >= len(b) || b[end] != ':' || b[start] <= ' ' {
			if start = scanColon(b, end); start < 0 {
				return -1
			}
		}
		if name == memberArguments {
			i = splitArguments(b, start, m)
		} else {
			i = scanValue(b, start, 1)
		}
		if i < 0 {
			return -1
		}
		f.values[name].start, f.values[name].end = start, i
		if i+1 < len(b) && b[i] == ',' && b[i+1] == '"' {
			i++
			continue
		}
		var more bool
		if i, more = scanNext(b, i, '}'); !more {
			return i
		}
	}
}

// scanMember scans the name of a member at b[i] and returns the index behind
// it, or -1.
func scanMember(b []byte, i int) (member, int) {
	if i >= len(b) || b[i] != '"' {
		return memberOther, -1
	}
	if m, size := memberAt(b[i+1:]); m != memberOther {
		return m, i + 1 + size
	}
	end, plain := scanString(b, i)
	if end < 0 || plain {
		return memberOther, end
	}
	var room [64]byte
	name := append(appendUnquoted(room[:0], b[i:end]), '"')
	if m, size := memberAt(name); size == len(name) {
		return m, end
	}
	return memberOther, end // the name may itself hold a quote
}

// memberAt returns the member whose name, with a quote behind it, is at the
// beginning of b, and how long that is.
func memberAt(b []byte) (member, int) {
	if len(b) == 0 {
		return memberOther, 0
	}
	// At most two of the names begin with the same letter.
	switch b[0] {
	case 't':
		return either(b, `type"`, memberType, `target"`, memberTarget)
	case 'i':
		return either(b, `invocationId"`, memberInvocationID, `item"`, memberItem)
	case 'a':
		return either(b, `arguments"`, memberArguments, `allowReconnect"`, memberAllowReconnect)
	case 's':
		return either(b, `streamIds"`, memberStreamIDs, `sequenceId"`, memberSequenceID)
	case 'r':
		return either(b, `result"`, memberResult, "", memberOther)
	case 'e':
		return either(b, `error"`, memberError, "", memberOther)
	case 'h':
		return either(b, `headers"`, memberHeaders, "", memberOther)
	}
	return memberOther, 0
}

func either(b []byte, name1 string, m1 member, name2 string, m2 member) (member, int) {
	if len(b) >= len(name1) && string(b[:len(name1)]) == name1 {
		return m1, len(name1)
	}
	if len(b) >= len(name2) && string(b[:len(name2)]) == name2 {
		return m2, len(name2)
	}
	return memberOther, 0
}

// splitArguments scans the value at b[i] and, if it is an array, puts its
// elements into m.
func splitArguments(b []byte, i int, m *Message) int {
	m.Arguments = m.Arguments[:0]
	if i >= len(b) || b[i] != '[' {
		return scanValue(b, i, 1)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		end := scanValue(b, i, 2)
		if end < 0 {
			return -1
		}
		m.Arguments = append(m.Arguments, b[i:end:end])
		var more bool
		if i, more = scanNext(b, end, ']'); !more {
			return i
		}
	}
}
