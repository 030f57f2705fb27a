package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// FuzzSession feeds what a server may send behind the handshake into a session
// without a connection. Nothing panics or hangs; and whatever the pieces in
// which the bytes arrive, the same calls are answered and the same messages
// reach the handlers.
func FuzzSession(f *testing.F) {
	for _, text := range []string{
		`{"type":1,"target":"m","arguments":[1,"x",{"a":[]}]}` + "\x1e",
		`{"type":1,"invocationId":"s1","target":"m","arguments":[]}` + "\x1e" + `{"type":6}` + "\x1e",
		`{"type":3,"invocationId":"1","result":42}` + "\x1e" + `{"type":3,"invocationId":"2","error":"no"}` + "\x1e",
		`{"type":2,"invocationId":"1","item":0}` + "\x1e",
		`{"type":2,"invocationId":"3","item":{"a":1}}` + "\x1e" + `{"type":2,"invocationId":"3","item":null}` + "\x1e" + `{"type":3,"invocationId":"3"}` + "\x1e",
		`{"type":7,"error":"bad","allowReconnect":true}` + "\x1e" + `{"type":6}` + "\x1e",
		`{"type":9,"sequenceId":1}` + "\x1e" + `{"type":99}` + "\x1e",
	} {
		f.Add(text, false, 3)
	}
	f.Add("\x11\x96\x01\x80\xa3xyz\xa6method\x91\x2a\x90\x09\x95\x03\x80\xa11\x03\x2a\x02\x91\x06", true, 1)
	f.Add("\x04\x93\x07\xc0\xc3", true, 2)
	f.Fuzz(func(t *testing.T, text string, binary bool, piece int) {
		var p protocol.Protocol = protocol.JSON{}
		if binary {
			p = protocol.MessagePack{}
		}
		whole := feed(t, p, text, len(text))
		if parts := feed(t, p, text, piece); parts != whole {
			t.Errorf("in pieces of %d: got %s want %s", piece, parts, whole)
		}
	})
}

// feed returns what a session makes of text that arrives in pieces.
func feed(t *testing.T, p protocol.Protocol, text string, piece int) string {
	t.Helper()
	c, err := New(Options{URL: "http://hub", Protocol: p, MaximumReceiveMessageSize: 1 << 10, HandlerQueue: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(c, newLife(t.Context(), c.opts.HandlerQueue), nil, door{}, nil)
	s.silence = time.NewTimer(time.Hour)
	defer s.silence.Stop()
	first, second, third := &waiting{}, &waiting{}, &waiting{items: newItems(1 << 20)}
	for _, w := range []*waiting{first, second, third} {
		if _, _, err := s.calls.register(w, 0); err != nil {
			t.Fatal(err)
		}
	}
	err = nil
	for rest := text; err == nil && rest != ""; {
		n := min(max(piece, 1), len(rest))
		s.buf = append(s.buf, rest[:n]...)
		rest = rest[n:]
		err = s.handleAll()
	}
	if err == nil {
		s.end(ending{})
	}
	s.calls.fail(nil)
	s.in.close()
	var events []string
	for e, ok := s.in.take(); ok; e, ok = s.in.take() {
		record := ""
		if e.id != "" {
			record = string(resultRecord(e, nil, 0, nil))
		}
		events = append(events, e.target, e.id, record)
		for i := range e.args.Len() {
			events = append(events, string(e.args.Raw(i)))
		}
	}
	var streamed []string
	for raw, ok := third.items.take(); ok; raw, ok = third.items.take() {
		streamed = append(streamed, string(raw))
	}
	b, _ := json.Marshal([]any{text == "" || err != nil, (<-first.answer).describe(), (<-second.answer).describe(), (<-third.answer).describe(), streamed, events})
	return string(b)
}

func (o outcome) describe() []any {
	return []any{string(o.value), o.hasValue, o.refused, o.text, o.err != nil}
}

// TestReadingDoesNotAllocate covers the records that nobody but the session
// looks at.
func TestReadingDoesNotAllocate(t *testing.T) {
	c, err := New(Options{URL: "http://hub"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(c, newLife(t.Context(), 1), nil, door{}, nil)
	records := []byte(`{"type":6}` + "\x1e" + `{"type":3,"invocationId":"unknown"}` + "\x1e" + `{"type":99}` + "\x1e")
	got := testing.AllocsPerRun(100, func() {
		s.buf = append(s.buf[:0], records...)
		if err := s.handleAll(); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations want 0", got)
	}
}
