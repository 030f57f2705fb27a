package dialect

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzEnvelope gives every payload to every parser. Nothing panics, every
// error is an *Error, and what was parsed is the same after it was appended
// and parsed again.
func FuzzEnvelope(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		fuzzInvocation(t, payload)
		fuzzRest(t, payload)
	})
}

func fuzzInvocation(t *testing.T, payload []byte) {
	t.Helper()
	var in Invocation
	if err := ParseInvocation(payload, &in); err != nil {
		requireTyped(t, err)
		if len(in.Excluded)+len(in.Frames) != 0 || in.InvocationID != nil || in.ReturnChannel != nil || in.Extension != nil {
			t.Fatalf("left after an error: %+v", in)
		}
		return
	}
	appended := AppendInvocation(nil, &in)
	var again Invocation
	if err := ParseInvocation(appended, &again); err != nil {
		t.Fatalf("parse of append: %v", err)
	}
	if !bytes.Equal(AppendInvocation(nil, &again), appended) || !sameInvocation(&in, &again) {
		t.Fatalf("got %+v want %+v", again, in)
	}
	var ids []string
	for _, id := range in.Excluded {
		ids = append(ids, string(id))
	}
	if len(in.InvocationID) > 0 && len(in.ReturnChannel) > 0 {
		sent := AppendInvocationTo(nil, ids, in.Frames, string(in.InvocationID), string(in.ReturnChannel), in.Extension)
		if !bytes.Equal(sent, appended) {
			t.Fatalf("got %x want %x", sent, appended)
		}
	}
}

func sameInvocation(a, b *Invocation) bool {
	if len(a.Excluded) != len(b.Excluded) || len(a.Frames) != len(b.Frames) {
		return false
	}
	for i := range a.Excluded {
		if !bytes.Equal(a.Excluded[i], b.Excluded[i]) {
			return false
		}
	}
	for i := range a.Frames {
		if a.Frames[i].Protocol != b.Frames[i].Protocol || !bytes.Equal(a.Frames[i].Data, b.Frames[i].Data) {
			return false
		}
	}
	return same(a.InvocationID, b.InvocationID) && same(a.ReturnChannel, b.ReturnChannel) && same(a.Extension, b.Extension)
}

// same compares and tells nil from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func fuzzRest(t *testing.T, payload []byte) {
	t.Helper()
	if c, err := ParseGroupCommand(payload); err != nil {
		requireTyped(t, err)
	} else if again, err := ParseGroupCommand(AppendGroupCommand(nil, c)); err != nil || again != c {
		t.Fatalf("group command: got %+v, %v want %+v", again, err, c)
	}
	if id, err := ParseAck(payload); err != nil {
		requireTyped(t, err)
	} else if again, err := ParseAck(AppendAck(nil, id)); err != nil || again != id {
		t.Fatalf("ack: got %d, %v want %d", again, err, id)
	}
	if c, err := ParseCompletion(payload); err != nil {
		requireTyped(t, err)
	} else if again, err := ParseCompletion(AppendCompletion(nil, c)); err != nil || again.Protocol != c.Protocol || !bytes.Equal(again.Frame, c.Frame) {
		t.Fatalf("completion: got %+v, %v want %+v", again, err, c)
	}
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	var typed *Error
	if !errors.As(err, &typed) {
		t.Fatalf("got %T want *Error", err)
	}
}

// FuzzChannel splits any channel name; what was recognised is built again.
func FuzzChannel(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(hubKey, v.Channel)
	}
	f.Add("", ":all")
	f.Fuzz(func(t *testing.T, key, channel string) {
		d := DotNet{HubKey: key}
		kind, name, ok := d.ParseChannel(channel)
		if !ok {
			return
		}
		build := map[Kind]func(string) string{
			All:           func(string) string { return d.All() },
			GroupCommands: func(string) string { return d.GroupCommands() },
			Ack:           d.Ack, Return: d.Return, Group: d.Group, User: d.User, Connection: d.Connection,
		}
		if got := build[kind](name); got != channel {
			t.Errorf("got %q want %q", got, channel)
		}
	})
}
