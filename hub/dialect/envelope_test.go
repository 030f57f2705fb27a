package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		finish  string
		kind    Kind
		payload string
		item    string
		reason  Reason
	}{
		{"refuses nothing at all", All, "", "outer array", Truncated},
		{"refuses a map", All, "8201", "outer array", WrongType},
		{"refuses nil exclusions", All, "92c080", "excluded ids", WrongType},
		{"refuses a nil excluded id", All, "9291c080", "excluded id", WrongType},
		{"refuses a missing map", All, "9290", "frames", Truncated},
		{"refuses a nil map", All, "9290c0", "frames", WrongType},
		{"refuses a nil protocol name", All, "929081c0c400", "protocol name", WrongType},
		{"refuses a nil frame", All, "929081a16ac0c0", "frame", WrongType},
		{"refuses a frame that is a string", All, "929081a16aa16a", "frame", WrongType},
		{"refuses an excluded count beyond the end", All, "92dd7fffffff80", "excluded ids", Truncated},
		{"refuses the largest excluded count", All, "92ddffffffff80", "excluded ids", Truncated},
		{"refuses a frame count beyond the end", All, "9290dfffffffff", "frames", Truncated},
		{"refuses a frame count its bytes cannot hold", All, "929083a0c400a0c400", "frames", Truncated},
		{"refuses a string length beyond the end", All, "9291dbffffffff80", "excluded id", Truncated},
		{"refuses a binary length beyond the end", All, "929081a16ac6ffffffff", "frame", Truncated},
		{"refuses an integer as invocation id", All, "949080012a", "invocation id", WrongType},
		{"refuses a missing return channel", All, "949080a131", "return channel", Truncated},
		{"refuses an id above int32", GroupCommands, "95ce80000000a15301a147a143", "command id", OutOfRange},
		{"refuses an id below int32", GroupCommands, "95d3ffffffff7fffffffa15301a147a143", "command id", OutOfRange},
		{"refuses an id above int64", GroupCommands, "95cfffffffffffffffffa15301a147a143", "command id", OutOfRange},
		{"refuses a string as id", GroupCommands, "95a131a15301a147a143", "command id", WrongType},
		{"refuses a nil server", GroupCommands, "952ac001a147a143", "server name", WrongType},
		{"refuses an action above a byte", GroupCommands, "952aa153cd0100a147a143", "action", OutOfRange},
		{"refuses a negative action", GroupCommands, "952aa153ffa147a143", "action", OutOfRange},
		{"refuses a nil group", GroupCommands, "952aa15301c0a143", "group name", WrongType},
		{"refuses a nil connection", GroupCommands, "952aa15301a147c0", "connection id", WrongType},
		{"refuses a float as id", Ack, "91cb3ff0000000000000", "command id", WrongType},
		{"refuses a promised id that is not there", Ack, "91", "command id", Truncated},
		{"refuses a nil protocol", Return, "92c0c400", "protocol name", WrongType},
		{"refuses a truncated answer", Return, "92a16ac40500", "frame", Truncated},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			payload := unhex(t, c.payload)
			err := parse(c.kind, payload)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v want an *Error", err)
			}
			if got.Item != c.item || got.Reason != c.reason {
				t.Errorf("got %v want %s: %v", got, c.item, c.reason)
			}
			if n := allocated(func() { _ = parse(c.kind, payload) }); n > 4096 {
				t.Errorf("allocated %d bytes", n)
			}
		})
	}
}

func TestParseAcceptsAnyWidth(t *testing.T) {
	for _, id := range []string{"2a", "cc2a", "cd002a", "ce0000002a", "cf000000000000002a", "d02a", "d1002a", "d20000002a", "d3000000000000002a"} {
		for _, head := range []string{"91", "dc0001", "dd00000001"} {
			got, err := ParseAck(unhex(t, head+id))
			if err != nil || got != 42 {
				t.Errorf("%s%s: got %d, %v want 42", head, id, got, err)
			}
		}
	}
	const wide = "dd00000002" + "dd00000001" + "db00000001" + "61" + "df00000001" + "da0004" + "6a736f6e" + "c600000001" + "2a"
	var in Invocation
	if err := ParseInvocation(unhex(t, wide), &in); err != nil {
		t.Fatal(err)
	}
	want := AppendInvocationTo(nil, []string{"a"}, []Frame{{"json", []byte("*")}}, "", "", nil)
	if got := AppendInvocation(nil, &in); !bytes.Equal(got, want) {
		t.Errorf("got %x want %x", got, want)
	}
}

func TestParseIgnoresWhatFollows(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		payload string
	}{
		{All, "929080ff"},                       // bytes after the array
		{All, "939080"},                         // a third item that is not there
		{All, "dd7fffffff9080c0c0"},             // two thousand million items that are not there
		{All, "969080c0c0c0"},                   // a sixth item that is not there
		{All, "959080c0c0dd7fffffff"},           // an extension that is not complete
		{GroupCommands, "962aa15301a147a143c1"}, // a byte no value begins with
		{Return, "93a16ac400"},
		{Ack, "922a"},
	} {
		if err := parse(c.kind, unhex(t, c.payload)); err != nil {
			t.Errorf("%s: %v", c.payload, err)
		}
	}
}

func TestUnknownActionsAreParsed(t *testing.T) {
	for _, action := range []Action{0, 3, 127, 128, 255} {
		want := GroupCommand{ID: 7, Server: "S", Action: action, Group: "G", ConnectionID: "C"}
		got, err := ParseGroupCommand(AppendGroupCommand(nil, want))
		if err != nil || got != want {
			t.Errorf("got %+v, %v want %+v", got, err, want)
		}
	}
}

func TestAckRoundTrips(t *testing.T) {
	for _, id := range []int32{0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxInt32, -1, -32, -33, -128, -129, -32768, -32769, math.MinInt32} {
		if got, err := ParseAck(AppendAck(nil, id)); err != nil || got != id {
			t.Errorf("got %d, %v want %d", got, err, id)
		}
	}
}

func TestInvocationForms(t *testing.T) {
	frames := []Frame{{"json", []byte("{}\x1e")}}
	const common = "9081a46a736f6ec4037b7d1e"
	for _, c := range []struct {
		finish      string
		id, channel string
		extension   string
		want        string
	}{
		{"writes two items for a plain message", "", "", "", "92" + common},
		{"writes four when a result is wanted", "1", "r", "", "94" + common + "a131a172"},
		{"writes five with an extension", "1", "r", "81a16f01", "95" + common + "a131a17281a16f01"},
		{"writes nil for what an extension follows", "", "", "2a", "95" + common + "c0c02a"},
		{"keeps an extension that is nil", "", "", "c0", "95" + common + "c0c0c0"},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			var extension []byte
			if c.extension != "" {
				extension = unhex(t, c.extension)
			}
			got := AppendInvocationTo([]byte("x"), nil, frames, c.id, c.channel, extension)
			if want := append([]byte("x"), unhex(t, c.want)...); !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got, want)
			}
			var in Invocation
			if err := ParseInvocation(got[1:], &in); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(in.Extension, extension) || string(in.InvocationID) != c.id || string(in.ReturnChannel) != c.channel {
				t.Errorf("parsed back: %+v", in)
			}
			if again := AppendInvocation([]byte("x"), &in); !bytes.Equal(again, got) {
				t.Errorf("appended again: got %x want %x", again, got)
			}
		})
	}
}

func TestParseInvocationOverwrites(t *testing.T) {
	in := Invocation{}
	full := AppendInvocationTo(nil, []string{"a"}, []Frame{{"json", []byte("1")}}, "i", "r", []byte{1})
	if err := ParseInvocation(full, &in); err != nil {
		t.Fatal(err)
	}
	if err := ParseInvocation(unhex(t, "929080"), &in); err != nil {
		t.Fatal(err)
	}
	if len(in.Excluded) != 0 || len(in.Frames) != 0 || in.InvocationID != nil || in.ReturnChannel != nil || in.Extension != nil {
		t.Errorf("left over: %+v", in)
	}
	if _, ok := in.Frame("json"); ok {
		t.Error("an old frame is still there")
	}
	if err := ParseInvocation(full[:len(full)-3], &in); err == nil {
		t.Fatal("got no error for half an invocation")
	}
	if len(in.Excluded) != 0 || len(in.Frames) != 0 || in.InvocationID != nil {
		t.Errorf("left after an error: %+v", in)
	}
}

// TestViewsCannotGrow appends to views, which must not reach what follows.
func TestViewsCannotGrow(t *testing.T) {
	payload := AppendInvocationTo(nil, []string{"a", "b"}, []Frame{{"json", []byte("1")}, {"x", []byte("2")}}, "i", "r", []byte{1})
	before := bytes.Clone(payload)
	var in Invocation
	if err := ParseInvocation(payload, &in); err != nil {
		t.Fatal(err)
	}
	for _, view := range [][]byte{in.Excluded[0], in.Frames[0].Data, in.InvocationID, in.ReturnChannel, in.Extension} {
		_ = append(view, '!')
	}
	if !bytes.Equal(payload, before) {
		t.Error("appending to a view changed the payload")
	}
}

func TestAllocations(t *testing.T) {
	frames := []Frame{{"json", bytes.Repeat([]byte("j"), 300)}, {"messagepack", bytes.Repeat([]byte("m"), 200)}, {"custom", []byte("c")}}
	excluded := []string{"kLmN0pQrStUvWxYz012345", "AbCdEfGhIjKlMnOpQrStUv"}
	extension := []byte{0x81, 0xa1, 'o', 1}
	payload := AppendInvocationTo(nil, excluded, frames, "id", "channel", extension)
	var in Invocation
	room := make([]byte, 0, 4096)
	command := AppendGroupCommand(nil, GroupCommand{1, "go-7_9f1c2e3d4b5a69788796a5b4c3d2e1f0", Add, "room-42", "kLmN0pQrStUvWxYz012345"})
	completion := AppendCompletion(nil, Completion{"json", frames[0].Data})
	ack := AppendAck(nil, 42)

	for _, c := range []struct {
		finish string
		want   float64
		f      func() error
	}{
		{"parses an invocation without allocating", 0, func() error { return ParseInvocation(payload, &in) }},
		{"appends an invocation without allocating", 0, func() error {
			AppendInvocationTo(room, excluded, frames, "id", "channel", extension)
			return nil
		}},
		{"appends a parsed invocation without allocating", 0, func() error { AppendInvocation(room, &in); return nil }},
		{"appends an invocation to nil with one allocation", 1, func() error {
			AppendInvocationTo(nil, excluded, frames, "id", "channel", extension)
			return nil
		}},
		{"parses a group command with one allocation", 1, func() error { _, err := ParseGroupCommand(command); return err }},
		{"parses a completion without allocating", 0, func() error { _, err := ParseCompletion(completion); return err }},
		{"parses an ack without allocating", 0, func() error { _, err := ParseAck(ack); return err }},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if err := c.f(); err != nil {
					t.Error(err)
				}
			})
			if got > c.want {
				t.Errorf("got %v allocations want %v", got, c.want)
			}
		})
	}
}

// TestParseMemoryIsBounded parses the densest payload: 24 bytes of slice
// header per byte, and at most as much again while the slice grows.
func TestParseMemoryIsBounded(t *testing.T) {
	const n = 1 << 16
	payload := AppendInvocationTo(nil, make([]string, n), nil, "", "", nil)
	var in Invocation
	if got := allocated(func() { in = Invocation{}; _ = ParseInvocation(payload, &in) }); got > 24*n*6 {
		t.Errorf("allocated %d bytes for %d", got, len(payload))
	}
	if len(in.Excluded) != n {
		t.Errorf("got %d ids want %d", len(in.Excluded), n)
	}
}

func TestErrorText(t *testing.T) {
	_, err := ParseAck([]byte{0x90})
	if got, want := fmt.Sprint(err), "dialect: ack: outer array: too few items"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
	for _, s := range []string{Truncated.String(), OutOfRange.String(), WrongType.String(), Reason(0).String()} {
		if s == "" || strings.Contains(s, "(") {
			t.Errorf("reason %q", s)
		}
	}
	for k := Kind(0); k <= Connection; k++ {
		if k.String() == "" || k != 0 && k.String() == "none" {
			t.Errorf("kind %d: %q", k, k)
		}
	}
}
