package protocol

import "strconv"

// emptyErrorText stands in for an empty error, which clients would take for
// success (and the official JSON encoder leaves out).
const emptyErrorText = "Unknown error."

// AppendInvocation appends an Invocation; see Protocol. An empty id is left
// out: no answer is wanted.
func (p JSON) AppendInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error) {
	return p.appendCall(dst, '1', id, target, args, streamIDs)
}

// AppendStreamInvocation appends a StreamInvocation; see Protocol.
func (p JSON) AppendStreamInvocation(dst []byte, id, target string, args []any, streamIDs ...string) ([]byte, error) {
	return p.appendCall(dst, '4', id, target, args, streamIDs)
}

func (p JSON) appendCall(dst []byte, typ byte, id, target string, args []any, streamIDs []string) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"type":`...)
	dst = append(dst, typ)
	if id != "" {
		dst = append(dst, `,"invocationId":`...)
		dst = appendQuoted(dst, id)
	}
	dst = append(dst, `,"target":`...)
	dst = appendQuoted(dst, target)
	dst = append(dst, `,"arguments":[`...)
	for i, arg := range args {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = p.AppendValue(dst, arg); err != nil {
			return dst[:start], err
		}
	}
	dst = append(dst, ']')
	for i, streamID := range streamIDs {
		if i == 0 {
			dst = append(dst, `,"streamIds":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, streamID)
	}
	if len(streamIDs) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}', recordSeparator), nil
}

// AppendStreamItem appends a StreamItem; see Protocol.
func (p JSON) AppendStreamItem(dst []byte, id string, item any) ([]byte, error) {
	start := len(dst)
	dst = append(dst, `{"type":2,"invocationId":`...)
	dst = appendQuoted(dst, id)
	dst = append(dst, `,"item":`...)
	dst, err := p.AppendValue(dst, item)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, '}', recordSeparator), nil
}

// BeginResult appends the beginning of a Completion; see Protocol.
func (JSON) BeginResult(dst []byte, id string) []byte {
	dst = append(dst, `{"type":3,"invocationId":`...)
	dst = appendQuoted(dst, id)
	return append(dst, `,"result":`...)
}

// EndResult ends what BeginResult began; see Protocol.
func (JSON) EndResult(dst []byte, start int) []byte {
	return append(dst, '}', recordSeparator)
}

// AppendResult appends a Completion with a result, which may be nil; see
// Protocol.
func (p JSON) AppendResult(dst []byte, id string, result any) ([]byte, error) {
	start := len(dst)
	dst, err := p.AppendValue(p.BeginResult(dst, id), result)
	if err != nil {
		return dst[:start], err
	}
	return p.EndResult(dst, start), nil
}

// AppendVoid appends a Completion without result; see Protocol.
func (JSON) AppendVoid(dst []byte, id string) []byte {
	return appendWithID(dst, `{"type":3,"invocationId":`, id)
}

// AppendError appends a Completion with an error; see Protocol. An empty text,
// which clients read as success, becomes "Unknown error.".
func (JSON) AppendError(dst []byte, id, text string) []byte {
	if text == "" {
		text = emptyErrorText
	}
	dst = append(dst, `{"type":3,"invocationId":`...)
	dst = appendQuoted(dst, id)
	dst = append(dst, `,"error":`...)
	dst = appendQuoted(dst, text)
	return append(dst, '}', recordSeparator)
}

// AppendCancelInvocation appends a CancelInvocation; see Protocol.
func (JSON) AppendCancelInvocation(dst []byte, id string) []byte {
	return appendWithID(dst, `{"type":5,"invocationId":`, id)
}

func appendWithID(dst []byte, head, id string) []byte {
	dst = append(dst, head...)
	dst = appendQuoted(dst, id)
	return append(dst, '}', recordSeparator)
}

// AppendPing appends a Ping.
func (JSON) AppendPing(dst []byte) []byte {
	return append(dst, "{\"type\":6}\x1e"...)
}

// AppendClose appends a Close; an empty text is left out.
func (JSON) AppendClose(dst []byte, text string, allowReconnect bool) []byte {
	dst = append(dst, `{"type":7`...)
	if text != "" {
		dst = append(dst, `,"error":`...)
		dst = appendQuoted(dst, text)
	}
	if allowReconnect {
		dst = append(dst, `,"allowReconnect":true`...)
	}
	return append(dst, '}', recordSeparator)
}

// AppendAck appends an Ack.
func (JSON) AppendAck(dst []byte, sequenceID int64) []byte {
	return appendSequenceID(dst, `{"type":8,"sequenceId":`, sequenceID)
}

// AppendSequence appends a Sequence.
func (JSON) AppendSequence(dst []byte, sequenceID int64) []byte {
	return appendSequenceID(dst, `{"type":9,"sequenceId":`, sequenceID)
}

func appendSequenceID(dst []byte, head string, n int64) []byte {
	dst = append(dst, head...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '}', recordSeparator)
}
