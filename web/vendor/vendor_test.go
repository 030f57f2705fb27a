package vendor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// recorded reads SHA256SUMS: file name to hexadecimal digest.
func recorded(t *testing.T) map[string]string {
	t.Helper()
	digests := make(map[string]string)
	for line := range strings.Lines(sums) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: line %q is not \"digest  name\"", line)
		}
		digests[name] = digest
	}
	return digests
}

func TestFilesMatchTheRecordedChecksums(t *testing.T) {
	digests := recorded(t)
	for _, name := range Names() {
		body, err := fs.ReadFile(Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(body)
		if got, want := hex.EncodeToString(sum[:]), digests[name]; got != want {
			t.Errorf("%s: sha256 %s, SHA256SUMS says %q", name, got, want)
		}
		delete(digests, name)
	}
	for name := range digests {
		t.Errorf("SHA256SUMS lists %s, which is not embedded", name)
	}
}

func TestNamesListsEveryEmbeddedFile(t *testing.T) {
	entries, err := fs.ReadDir(Files(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	want := Names()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("embedded %q, Names %q", got, want)
	}
}

func TestScriptsAreTheDocumentedVersion(t *testing.T) {
	for _, name := range []string{SignalR, MessagePack} {
		body, err := fs.ReadFile(Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(body, []byte(`"10.0.11"`)) {
			t.Errorf("%s does not name version 10.0.11", name)
		}
	}
}

// A subdirectory would be missing from the module archive (see the package comment).
func TestDirectoryIsFlat(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			t.Errorf("%s is a directory", entry.Name())
		}
	}
}
