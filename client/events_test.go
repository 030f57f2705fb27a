package client

import (
	"bufio"
	"strings"
	"testing"
	"testing/iotest"
)

// events decodes a whole stream, reading into pieces of size.
func events(stream string, size int) (chunks []string, rest string) {
	d := eventDecoder{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(stream)))}
	p := make([]byte, size)
	for {
		n, whole, err := d.read(p)
		rest += string(p[:n])
		if whole {
			chunks = append(chunks, rest)
			rest = ""
		}
		if err != nil {
			return chunks, rest
		}
	}
}

func TestEventDecoder(t *testing.T) {
	for _, c := range []struct {
		finish string
		stream string
		want   string // chunks joined by |
	}{
		{"reads an event", "data: Hello, World\r\n\r\n", "Hello, World"},
		{"joins lines", "data: Hello\r\ndata: World\r\n\r\n", "Hello\nWorld"},
		{"keeps an empty last line", "data: Hello\r\ndata: \r\n\r\n", "Hello\n"},
		{"takes any line ending", "data: a\n\ndata: b\r\rdata: c\r\n\r\n", "a|b|c"},
		{"takes data without a space, and only one space away", "data:a\n\ndata:  b\n\n", "a| b"},
		{"takes data without a colon", "data\n\ndata\ndata\n\n", "|\n"},
		{"ignores comments and other fields", ":\r\n: x\nevent: data\nid: 1\nretry: 5\ndatax: 1\ndat: 2\ndata : 3\ndata: y\n\n", "y"},
		{"ignores events without data", "\r\n\r\nevent: x\n\ndata: y\n\n", "y"},
		{"drops nothing inside data", "data: a:b data: \x1e{}\n\n", "a:b data: \x1e{}"},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			for _, size := range []int{1, 3, 100} {
				chunks, rest := events(c.stream, size)
				if got := strings.Join(chunks, "|"); got != c.want || rest != "" {
					t.Errorf("in pieces of %d: got %q and %q want %q", size, got, rest, c.want)
				}
			}
		})
	}
}

// FuzzEventDecoder: nothing panics or hangs; pieces make no difference; and
// there is never more data than bytes.
func FuzzEventDecoder(f *testing.F) {
	for _, s := range []string{":\r\n", "data: {}\x1e\r\n\r\n", "data: a\ndata\n\n", "data: a\r\rdata:", "event: x\nid\n\n"} {
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, stream string, size int) {
		size = min(max(size, 1), 1<<10)
		a, restA := events(stream, size)
		b, restB := events(stream, 1<<10)
		if strings.Join(a, "|") != strings.Join(b, "|") || len(a) != len(b) || restA != restB {
			t.Errorf("got %q and %q, whole %q and %q", a, restA, b, restB)
		}
		if got := len(strings.Join(a, "")) + len(restA); got > len(stream) {
			t.Errorf("%d bytes of data in %d", got, len(stream))
		}
	})
}
