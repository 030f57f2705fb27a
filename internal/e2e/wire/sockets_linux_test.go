package wire

import (
	"os"
	"strings"
	"testing"
)

// openSockets is how many descriptors of this process are sockets.
func openSockets(t testing.TB) (n int) {
	t.Helper()
	const dir = "/proc/self/fd/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if link, err := os.Readlink(dir + e.Name()); err == nil && strings.HasPrefix(link, "socket:") {
			n++
		}
	}
	return n
}
