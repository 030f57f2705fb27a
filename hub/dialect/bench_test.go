package dialect

import (
	"bytes"
	"fmt"
	"testing"
)

// benchFrames are the frames of one message of about n bytes.
func benchFrames(n int) []Frame {
	return []Frame{{"json", bytes.Repeat([]byte("j"), n)}, {"messagepack", bytes.Repeat([]byte("m"), n/2)}}
}

func BenchmarkAppendInvocation(b *testing.B) {
	for _, size := range []int{64, 2048} {
		for _, excluded := range []int{0, 1, 100} {
			b.Run(fmt.Sprintf("frame=%d/excluded=%d", size, excluded), func(b *testing.B) {
				frames, ids := benchFrames(size), benchIDs(excluded)
				var dst []byte
				b.ReportAllocs()
				for b.Loop() {
					dst = AppendInvocationTo(dst[:0], ids, frames, "", "", nil)
				}
			})
		}
	}
}

func BenchmarkParseInvocation(b *testing.B) {
	for _, size := range []int{64, 2048} {
		for _, excluded := range []int{0, 1, 100} {
			b.Run(fmt.Sprintf("frame=%d/excluded=%d", size, excluded), func(b *testing.B) {
				payload := AppendInvocationTo(nil, benchIDs(excluded), benchFrames(size), "", "", nil)
				var in Invocation
				b.ReportAllocs()
				for b.Loop() {
					if err := ParseInvocation(payload, &in); err != nil {
						b.Fatal(err)
					}
					if _, ok := in.Frame("messagepack"); !ok {
						b.Fatal("no frame")
					}
				}
			})
		}
	}
}

func BenchmarkParseGroupCommand(b *testing.B) {
	payload := AppendGroupCommand(nil, GroupCommand{1, "go-7_9f1c2e3d4b5a69788796a5b4c3d2e1f0", Add, "room-42", "kLmN0pQrStUvWxYz012345"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseGroupCommand(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseChannel(b *testing.B) {
	d := DotNet{HubKey: hubKey}
	channel := d.Connection("AbCdEfGhIjKlMnOpQrStUv")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := d.ParseChannel(channel); !ok {
			b.Fatal("not parsed")
		}
	}
}

func benchIDs(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("kLmN0pQrStUvWxYz%06d", i))
	}
	return ids
}
