package transport

import (
	"bytes"
	"testing"
)

func TestFrameHeader(t *testing.T) {
	for _, tt := range []struct {
		name   string
		size   int
		binary bool
		header []byte
	}{
		{"it marks text", 0, false, []byte{0x81, 0}},
		{"it marks binary", 1, true, []byte{0x82, 1}},
		{"it has the short form up to 125", 125, false, []byte{0x81, 125}},
		{"it has two bytes of length from 126", 126, false, []byte{0x81, 126, 0, 126}},
		{"it has two bytes of length up to 65,535", 65535, true, []byte{0x82, 126, 0xff, 0xff}},
		{"it has eight bytes of length from 65,536", 65536, true, []byte{0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload := bytes.Repeat([]byte{'x'}, tt.size)
			for _, m := range []*Message{
				NewMessage(payload, tt.binary),
				EndMessage(append(BeginMessage(0), payload...), tt.binary),
			} {
				want := append(bytes.Clone(tt.header), payload...)
				if got := m.Frame(); !bytes.Equal(got, want) {
					t.Errorf("frame begins % x, want % x", got[:min(12, len(got))], want[:min(12, len(want))])
				}
				if !bytes.Equal(m.Payload(), payload) {
					t.Errorf("got a payload of %d bytes, want %d", len(m.Payload()), len(payload))
				}
				if got := m.Size(); got != len(want) {
					t.Errorf("got size %d, want %d", got, len(want))
				}
				if m.Control() {
					t.Error("got a control frame")
				}
				f, err := readFrame(bytes.NewReader(m.Frame()))
				if err != nil || !f.fin || !bytes.Equal(f.payload, payload) {
					t.Errorf("reads back as %d bytes, %v", len(f.payload), err)
				}
			}
		})
	}
}

func TestNewMessageCopies(t *testing.T) {
	payload := []byte("abc")
	m := NewMessage(payload, false)
	payload[0] = 'x'
	if got := string(m.Payload()); got != "abc" {
		t.Errorf("got %q after the source was changed", got)
	}
}

func TestProbe(t *testing.T) {
	m := NewProbe()
	if got, want := m.Frame(), []byte{0x89, 0}; !bytes.Equal(got, want) {
		t.Errorf("got frame % x, want % x", got, want)
	}
	if !m.Control() || len(m.Payload()) != 0 || m.Size() != 2 {
		t.Errorf("got control %v, payload %q, size %d", m.Control(), m.Payload(), m.Size())
	}
}

func TestMessageIsFreedByTheLastQueue(t *testing.T) {
	m := NewMessage([]byte("abc"), false)
	freed := 0
	m.OnFree(func(got *Message) {
		freed++
		if got != m {
			t.Error("freed another message")
		}
	})
	m.Retain(1)
	m.Retain(2)
	for range 2 {
		m.Release(1)
	}
	if freed != 0 {
		t.Fatal("freed with one reference left")
	}
	m.Release(1)
	if freed != 1 {
		t.Fatalf("freed %d times, want once", freed)
	}
	m.Retain(1) // a message may be used again
	m.Release(1)
	if freed != 2 {
		t.Errorf("freed %d times, want twice", freed)
	}
	plain := NewMessage(nil, false)
	plain.Retain(1)
	plain.Release(1)
}
