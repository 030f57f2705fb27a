package imports

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/switchboard-hub/switchboard"

// A rule says what a package's code (tests excepted) may import besides the
// standard library. A pattern ending in "..." stands for everything below.
type rule struct {
	knows   string // what the package is about, and so the reason
	ours    []string
	foreign []string
}

// Small helpers that know nothing of our subject may be imported anywhere.
var helpers = []string{"golang.org/x/sync/...", "golang.org/x/time/rate", "github.com/cenkalti/backoff/v5", "github.com/cespare/xxhash/v2"}

var codecs = []string{"github.com/tinylib/msgp/msgp", "github.com/ugorji/go/codec", "github.com/go-json-experiment/json/..."}

// layout lists every package of the module.
func layout() map[string]rule {
	return map[string]rule{
		"hub/protocol":                   {knows: "hub messages and their encodings, pure", foreign: codecs},
		"hub/transport":                  {knows: "negotiate, tokens and transports; nothing of hub messages", ours: []string{"hub/transport/internal/forward"}, foreign: []string{"github.com/coder/websocket", "github.com/google/uuid"}},
		"hub/transport/internal/forward": {knows: "passing requests to the instance that owns a connection; standard library only"},
		"hub/dialect":                    {knows: "what instances say to each other, pure", foreign: append(slices.Clone(codecs), "github.com/google/uuid")},
		"hub":                            {knows: "connections, methods, groups, users, relay; no Redis and no web", ours: []string{"hub/protocol", "hub/transport", "hub/dialect"}, foreign: []string{"github.com/google/uuid", "go.opentelemetry.io/otel/..."}},
		"hub/hubtest":                    {knows: "hubs in memory for tests", ours: []string{"hub", "hub/protocol", "hub/transport"}},
		"backplane":                      {knows: "bytes on named Redis channels; fits hub without knowing it", foreign: []string{"github.com/redis/go-redis/v9/..."}},
		"backplane/memory":               {knows: "the same in memory; standard library only"},
		"client":                         {knows: "the Go SignalR client", ours: []string{"hub/protocol"}, foreign: []string{"github.com/coder/websocket", "github.com/google/uuid"}},
		"web/ui":                         {knows: "the embedded page", ours: []string{"web/vendor"}},
		"web/vendor":                     {knows: "the browser libraries, embedded"},

		"internal/server":    {knows: "one instance made from a Config", ours: []string{"hub", "hub/protocol", "backplane", "web/ui"}, foreign: []string{"github.com/google/uuid"}},
		"internal/demo":      {knows: "a fleet in one process", ours: []string{"internal/server", "hub", "backplane/memory"}},
		"internal/redistest": {knows: "a private redis-server for a test", foreign: []string{"github.com/redis/go-redis/v9/..."}},
		"internal/imports":   {knows: "this test"},
		"internal/docs":      {knows: "tests of the manual"},
		"internal/e2e":       {knows: "end-to-end tests of fleets"},
		"internal/e2e/wire":  {knows: "end-to-end tests of one socket, byte by byte"},

		"cmd/conformance": {knows: "the host that outside programs judge, on the public API", ours: []string{"hub", "hub/protocol", "hub/transport", "backplane"}, foreign: []string{"github.com/golang-jwt/jwt/v5"}},
		"cmd/switchboard": {knows: "flags, files and signals", ours: []string{"internal/server", "internal/demo", "client", "backplane", "hub/protocol"}, foreign: []string{"github.com/alecthomas/kong", "go.yaml.in/yaml/v3"}},
	}
}

func (r rule) allows(imported string) bool {
	if own, ok := strings.CutPrefix(imported, module+"/"); ok {
		return slices.Contains(r.ours, own)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // standard library
	}
	for _, pattern := range slices.Concat(r.foreign, helpers) {
		if head, below := strings.CutSuffix(pattern, "/..."); pattern == imported || below && (imported == head || strings.HasPrefix(imported, head+"/")) {
			return true
		}
	}
	return false
}

// violations reads the tree at root and returns a line for each import that
// the layout forbids and each package that it does not know.
func violations(root string) ([]string, error) {
	rules := layout()
	var lines []string
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && rel != "." {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		pkg := path.Dir(rel)
		seen[pkg] = true
		r, known := rules[pkg]
		if !known && !strings.HasPrefix(pkg, "examples/") {
			lines = append(lines, fmt.Sprintf("%s: package %s is not in the layout", rel, pkg))
			return nil
		}
		if !known {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !r.allows(imported) {
				lines = append(lines, fmt.Sprintf("%s: must not import %s: %s knows only %s", rel, imported, pkg, r.knows))
			}
		}
		return nil
	})
	for _, pkg := range slices.Sorted(maps.Keys(rules)) {
		if !seen[pkg] && err == nil {
			lines = append(lines, fmt.Sprintf("package %s is in the layout but not in the tree", pkg))
		}
	}
	return lines, err
}

func TestImportsFollowTheLayout(t *testing.T) {
	lines, err := violations(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		t.Error(line)
	}
}

func TestItFindsAForbiddenImport(t *testing.T) {
	root := t.TempDir()
	for name, source := range map[string]string{
		"hub/protocol/x.go": "package protocol\n\nimport _ \"" + module + "/hub\"\n",
		"hub/x.go":          "package hub\n\nimport _ \"github.com/redis/go-redis/v9\"\n",
		"backplane/x.go":    "package backplane\n\nimport _ \"" + module + "/hub\"\n",
		"util/x.go":         "package util\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := violations(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hub/protocol/x.go: must not import", "hub/x.go: must not import", "backplane/x.go: must not import", "util/x.go: package util"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no line begins with %q in %q", want, lines)
		}
	}
}
