package dialect

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
)

// A vector is one payload as .NET writes it.
type vector struct {
	Name       string
	Channel    string
	Hex        string
	DecodeOnly bool `json:"decode_only"`
	Decoded    struct {
		Kind         string
		ID           int32
		ServerName   string
		ActionCode   uint8
		Group        string
		ConnectionID string
		Excluded     []string
		Protocols    []struct {
			Name     string
			FrameHex string `json:"frame_hex"`
		}
		InvocationID  *string
		ReturnChannel *string
		Protocol      string
		FrameHex      string `json:"frame_hex"`
	}
}

// hubKey is that of all vectors.
const hubKey = "Contoso.Chat.Hubs.ChatHub"

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) < 69 {
		t.Fatalf("got %d vectors, want at least 69", len(vs))
	}
	return vs
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run("it agrees with "+v.Name, func(t *testing.T) {
			payload := unhex(t, v.Hex)
			var encoded []byte
			switch v.Decoded.Kind {
			case "ack":
				encoded = checkAck(t, v, payload)
			case "groupCommand":
				encoded = checkGroupCommand(t, v, payload)
			case "invocation":
				encoded = checkInvocation(t, v, payload)
			case "completion":
				encoded = checkCompletion(t, v, payload)
			case "error":
				checkReject(t, v, payload)
				return
			default:
				t.Fatalf("kind %q", v.Decoded.Kind)
			}
			if !v.DecodeOnly && !bytes.Equal(encoded, payload) {
				t.Errorf("encoded\n got %x\nwant %x", encoded, payload)
			}
		})
	}
}

func checkAck(t *testing.T, v vector, payload []byte) []byte {
	t.Helper()
	id, err := ParseAck(payload)
	if err != nil || id != v.Decoded.ID {
		t.Fatalf("got %d, %v, want %d", id, err, v.Decoded.ID)
	}
	return AppendAck(nil, id)
}

func checkGroupCommand(t *testing.T, v vector, payload []byte) []byte {
	t.Helper()
	d := v.Decoded
	want := GroupCommand{ID: d.ID, Server: d.ServerName, Action: Action(d.ActionCode), Group: d.Group, ConnectionID: d.ConnectionID}
	got, err := ParseGroupCommand(payload)
	if err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	return AppendGroupCommand(nil, want)
}

func checkCompletion(t *testing.T, v vector, payload []byte) []byte {
	t.Helper()
	got, err := ParseCompletion(payload)
	frame := unhex(t, v.Decoded.FrameHex)
	if err != nil || got.Protocol != v.Decoded.Protocol || !bytes.Equal(got.Frame, frame) {
		t.Fatalf("got %+v, %v", got, err)
	}
	return AppendCompletion(nil, Completion{Protocol: v.Decoded.Protocol, Frame: frame})
}

func checkInvocation(t *testing.T, v vector, payload []byte) []byte {
	t.Helper()
	d := v.Decoded
	var got Invocation
	if err := ParseInvocation(payload, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Excluded) != len(d.Excluded) || len(got.Frames) != len(d.Protocols) {
		t.Fatalf("got %d excluded, %d frames", len(got.Excluded), len(got.Frames))
	}
	for i, id := range d.Excluded {
		if string(got.Excluded[i]) != id {
			t.Errorf("excluded %d: got %q want %q", i, got.Excluded[i], id)
		}
	}
	var frames []Frame
	for i, p := range d.Protocols {
		f := Frame{Protocol: p.Name, Data: unhex(t, p.FrameHex)}
		if got.Frames[i].Protocol != f.Protocol || !bytes.Equal(got.Frames[i].Data, f.Data) {
			t.Errorf("frame %d: got %q %x, want %q %x", i, got.Frames[i].Protocol, got.Frames[i].Data, f.Protocol, f.Data)
		}
		frames = append(frames, f)
		first := slices.IndexFunc(got.Frames, func(g Frame) bool { return g.Protocol == p.Name })
		if data, ok := got.Frame(p.Name); !ok || !bytes.Equal(data, got.Frames[first].Data) {
			t.Errorf("Frame(%q) is not the first match", p.Name)
		}
	}
	id, idOK := optionalEqual(got.InvocationID, d.InvocationID)
	channel, channelOK := optionalEqual(got.ReturnChannel, d.ReturnChannel)
	if !idOK || !channelOK {
		t.Errorf("got id %q, return channel %q", got.InvocationID, got.ReturnChannel)
	}
	sent := AppendInvocationTo(nil, d.Excluded, frames, id, channel, got.Extension)
	if parsed := AppendInvocation(nil, &got); !bytes.Equal(sent, parsed) {
		t.Errorf("the two append functions differ:\n%x\n%x", sent, parsed)
	}
	return sent
}

// optionalEqual compares a view with the string of a vector, and returns that.
func optionalEqual(got []byte, want *string) (string, bool) {
	if want == nil {
		return "", got == nil
	}
	return *want, got != nil && string(got) == *want
}

// checkReject asks the parser that the channel calls for.
func checkReject(t *testing.T, v vector, payload []byte) {
	t.Helper()
	kind, _, ok := DotNet{hubKey}.ParseChannel(v.Channel)
	if !ok {
		t.Fatalf("channel %q", v.Channel)
	}
	if got := allocated(func() { rejected(t, kind, payload) }); got > 4096 {
		t.Errorf("allocated %d bytes", got)
	}
}

func rejected(t *testing.T, kind Kind, payload []byte) {
	t.Helper()
	err := parse(kind, payload)
	var typed *Error
	if !errors.As(err, &typed) || typed.Envelope == "" || typed.Item == "" || typed.Reason == 0 {
		t.Errorf("got error %#v, want an *Error with all its fields", err)
	}
}

// parse gives the payload to the parser of the kind.
func parse(kind Kind, payload []byte) error {
	var err error
	switch kind {
	case GroupCommands:
		_, err = ParseGroupCommand(payload)
	case Ack:
		_, err = ParseAck(payload)
	case Return:
		_, err = ParseCompletion(payload)
	default:
		err = ParseInvocation(payload, new(Invocation))
	}
	return err
}

// allocated returns how many bytes f allocates, the least of three runs
// because other goroutines may allocate too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
