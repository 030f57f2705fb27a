package protocol

import "bytes"

// finish judges the fields of a message of type n and puts them into m.
func (f *jsonFields) finish(n int64, m *Message) (err error) {
	switch n {
	case int64(Invocation), int64(StreamInvocation):
		err = f.finishInvocation(n == int64(StreamInvocation), m)
	case int64(StreamItem):
		if err = f.finishCall(true, m); err == nil && !f.has(memberItem) {
			err = missing("item")
		}
		m.Value, m.HasValue = f.raw(memberItem), f.has(memberItem)
	case int64(Completion):
		err = f.finishCompletion(m)
	case int64(CancelInvocation):
		err = f.finishCall(true, m)
	case int64(Ping):
	case int64(Close):
		err = f.finishClose(m)
	case int64(Ack), int64(Sequence):
		err = f.finishSequence(m)
	default:
		n = 0
	}
	if n != int64(Invocation) && n != int64(StreamInvocation) {
		m.Arguments = m.Arguments[:0]
	}
	if err == nil {
		m.Type = Type(n)
	}
	return err
}

// finishCall reads what all messages of a call have: headers and id.
func (f *jsonFields) finishCall(needsID bool, m *Message) (err error) {
	if f.has(memberHeaders) {
		if err = f.finishHeaders(m); err != nil {
			return err
		}
	}
	if f.has(memberInvocationID) {
		if m.InvocationID, err = jsonText(f.raw(memberInvocationID), "invocationId"); err != nil {
			return err
		}
	}
	if needsID && len(m.InvocationID) == 0 {
		return missing("invocationId")
	}
	return nil
}

func (f *jsonFields) finishInvocation(needsID bool, m *Message) (err error) {
	if err = f.finishCall(needsID, m); err != nil {
		return err
	}
	if !f.has(memberTarget) {
		return missing("target")
	}
	if m.Target, err = jsonText(f.raw(memberTarget), "target"); err != nil {
		return err
	}
	if !f.has(memberArguments) {
		return missing("arguments")
	}
	if f.raw(memberArguments)[0] != '[' {
		return wrongType("arguments", "Array")
	}
	if f.has(memberStreamIDs) {
		return f.finishStreamIDs(m)
	}
	return nil
}

func (f *jsonFields) finishCompletion(m *Message) (err error) {
	if err = f.finishCall(true, m); err != nil {
		return err
	}
	if f.has(memberError) {
		if m.Error, err = jsonText(f.raw(memberError), "error"); err != nil {
			return err
		}
		m.HasError = true
		if f.has(memberResult) {
			return &Error{Reason: ReasonConflict, Detail: "The 'error' and 'result' properties are mutually exclusive."}
		}
	}
	m.Value, m.HasValue = f.raw(memberResult), f.has(memberResult)
	return nil
}

func (f *jsonFields) finishClose(m *Message) (err error) {
	if f.has(memberError) {
		if m.Error, err = jsonText(f.raw(memberError), "error"); err != nil {
			return err
		}
		m.HasError = true
	}
	switch string(f.raw(memberAllowReconnect)) {
	case "", "false":
	case "true":
		m.AllowReconnect = true
	default:
		return &Error{Reason: ReasonWrongType, Detail: "Expected 'allowReconnect' to be true or false."}
	}
	return nil
}

func (f *jsonFields) finishSequence(m *Message) error {
	if !f.has(memberSequenceID) {
		return missing("sequenceId")
	}
	n, ok := parseInteger(f.raw(memberSequenceID), 64)
	if !ok {
		return wrongType("sequenceId", "Number")
	}
	m.SequenceID = n
	return nil
}

func (f *jsonFields) finishHeaders(m *Message) error {
	b := f.raw(memberHeaders)
	if b[0] != '{' {
		return wrongType("headers", "Object")
	}
	for i, more := skipSpace(b, 1), true; more && b[i] != '}'; {
		end, _ := scanString(b, i)
		name, _ := jsonText(b[i:end], "")
		start := scanColon(b, end)
		end = scanValue(b, start, 2)
		if b[start] != '"' {
			return &Error{Reason: ReasonWrongType, Detail: "Expected header '" + string(name) + "' to be of type String."}
		}
		value, _ := jsonText(b[start:end], "")
		m.Headers = append(m.Headers, Header{Name: name, Value: value})
		i, more = scanNext(b, end, '}')
	}
	return nil
}

func (f *jsonFields) finishStreamIDs(m *Message) error {
	b := f.raw(memberStreamIDs)
	if b[0] != '[' {
		return wrongType("streamIds", "Array")
	}
	for i, more := skipSpace(b, 1), true; more && b[i] != ']'; {
		end := scanValue(b, i, 2)
		if b[i] != '"' {
			return &Error{Reason: ReasonWrongType, Detail: "Null value for 'streamIds' is not valid."}
		}
		id, _ := jsonText(b[i:end], "")
		m.StreamIDs = append(m.StreamIDs, id)
		i, more = scanNext(b, end, ']')
	}
	return nil
}

// jsonText returns the text of the scanned value raw: a part of raw, or a copy
// if there is something to unescape.
func jsonText(raw []byte, property string) ([]byte, error) {
	if raw[0] != '"' {
		return nil, wrongType(property, "String")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1 : len(raw)-1], nil
	}
	return appendUnquoted(nil, raw), nil
}
