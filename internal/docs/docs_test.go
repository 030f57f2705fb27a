package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the module.
const root = "../.."

// manual lists the documents, relative to root.
func manual(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "CONTRIBUTING.md"}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range more {
		files = append(files, "docs/"+filepath.Base(file))
	}
	return files
}

// read returns the blocks of Go and the prose of a document.
func read(t *testing.T, file string) ([]block, []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	blocks, prose, err := goBlocks(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return blocks, prose
}

func TestTheGoOfTheManualCompiles(t *testing.T) {
	var blocks []block
	for _, file := range manual(t) {
		found, _ := read(t, file)
		blocks = append(blocks, found...)
	}
	if len(blocks) == 0 {
		t.Fatal("no block of Go in the whole manual")
	}
	problems, err := compile(root, blocks)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("%d blocks", len(blocks))
}

func TestTheLinksOfTheManualLeadSomewhere(t *testing.T) {
	for _, file := range manual(t) {
		_, prose := read(t, file)
		for _, problem := range brokenLinks(root, file, prose) {
			t.Error(problem)
		}
	}
}

// TestItSeesWhatIsWrongWithABlock: each document has one block, and the lines
// that the test should write about it; none for a block that compiles.
func TestItSeesWhatIsWrongWithABlock(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string // beginnings, in order
	}{
		{"it takes a whole file", "```go\npackage main\n\nfunc main() {}\n```\n", nil},
		{"it takes declarations", "```go\nfunc f(ctx context.Context, from *hub.Caller) error { return from.AddToGroup(ctx, \"x\") }\n```\n", nil},
		{"it takes statements with variables left over", "```go\nh, err := hub.New(hub.Options{Name: \"x\"})\n// …\nh.Register(mux, \"/x\")\n```\n", nil},
		{"it takes hidden declarations", "text\n\n<!-- with:\ntype line struct{ n int }\n-->\n\n```go\nfmt.Println(line{1}.n)\n```\n", nil},
		{"it takes hidden declarations on one line", "<!-- with: var n int -->\n```go\nfmt.Println(n)\n```\n", nil},
		{"it takes packages of go.mod", "```go\npackage x\n\nimport \"github.com/golang-jwt/jwt/v5\"\n\nvar _ jwt.Claims\n```\n", nil},
		{"it knows a variable from the package of its name", "```go\nlog := slog.New(slog.DiscardHandler)\nlog.Info(\"x\")\n```\n", nil},
		{"it finds an error of syntax", "a\n\n```go\nx := := 1\n```\n", []string{"doc.md:4: expected operand"}},
		{"it finds a wrong type", "a\n```go\n\nvar s string = 1\n```\n", []string{"doc.md:4: cannot use 1"}},
		{"it finds what the library does not have", "```go\n\n\nh.Missing()\n```\n", []string{"doc.md:4: h.Missing undefined"}},
		{"it finds an unknown name", "```go\nfmt.Println(nobody)\n```\n", []string{"doc.md:2: undefined: nobody"}},
		{"it finds an error in hidden declarations", "a\n<!-- with:\nvar n nothing\n-->\n```go\nfmt.Println(n)\n```\n", []string{"doc.md:3: undefined: nothing"}},
		{"it finds a variable left over in a whole function", "```go\nfunc f() {\n\tx := 1\n}\n```\n", []string{"doc.md:3: declared and not used: x"}},
		{"it finds an import left over", "```go\npackage x\n\nimport \"os\"\n```\n", []string{"doc.md:4: \"os\" imported and not used"}},
		{"it finds a package that does not exist", "```go\npackage x\n\nimport _ \"nobody.example/x\"\n```\n", []string{"doc.md:4: could not import nobody.example/x"}},
		{"it finds a package that readers cannot have", "```go\npackage x\n\nimport _ \"" + module + "/internal/server\"\n```\n", []string{"doc.md:4: could not import " + module + "/internal/server"}},
		{"it finds a program without main", "\n```go\npackage main\n```\n", []string{"doc.md:2: a program without main"}},
		{"it finds every error", "```go\nvar a int = \"\"\nvar b string = 1\n```\n", []string{"doc.md:2:", "doc.md:3:"}},
		{"it leaves other languages alone", "```js\nlet x = ;\n```\n```go\nvar a int\n```\n", nil},
	}
	// One run of the go command serves all of them.
	var all []block
	want := map[string][]string{}
	for _, tt := range tests {
		blocks, _, err := goBlocks("doc.md", tt.text)
		if err != nil || len(blocks) != 1 {
			t.Fatalf("%s: %d blocks, %v", tt.name, len(blocks), err)
		}
		blocks[0].file = tt.name + "/doc.md"
		want[blocks[0].file] = tt.want
		all = append(all, blocks[0])
	}
	problems, err := compile(root, all)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, problem := range problems {
		name, line, ok := strings.Cut(problem, "/doc.md:")
		if !ok {
			t.Fatalf("no document in %q", problem)
		}
		file := name + "/doc.md"
		got[file] = append(got[file], "doc.md:"+line)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := got[tt.name+"/doc.md"]
			if len(found) != len(tt.want) {
				t.Fatalf("got %q, want %q", found, tt.want)
			}
			for i, begin := range tt.want {
				if !strings.HasPrefix(found[i], begin) {
					t.Errorf("got %q, want %q", found[i], begin)
				}
			}
		})
	}
}

func TestItSeesABrokenDocument(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"it finds a block without an end":         {"a\n```go\nx\n", "doc.md:2: this block does not end"},
		"it finds hidden declarations of nothing": {"<!-- with: var n int -->\n\ntext\n```go\n```\n", "doc.md:1: hidden declarations that no block follows"},
		"it finds them at the end":                {"\n<!-- with: var n int -->\n", "doc.md:2: hidden declarations that no block follows"},
		"it finds them before another language":   {"<!-- with: var n int -->\n```js\n```\n", "doc.md:1: hidden declarations before a block that is not Go"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := goBlocks("doc.md", tt.text); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestItSeesABrokenLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := "# Other\n\n## What `Send` does, and when\n"
	if err := os.WriteFile(filepath.Join(dir, "docs", "other.md"), []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	text := strings.Join([]string{
		"# Links",
		"[a](other.md) [`b`](other.md#what-send-does-and-when) [c](#links) [d](https://example.com/x) [e](../docs)",
		"[f](missing.md)",
		"`[g](not/a/link)` [h](other.md#missing)",
		"[i](#missing) [j](../../outside.md)",
		"```js",
		"[k](missing.md)",
		"```",
		"[l]: missing.md",
	}, "\n")
	_, prose, err := goBlocks("docs/doc.md", text)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/doc.md:3: link to missing.md: no such file",
		"docs/doc.md:4: link to other.md#missing: no such heading",
		"docs/doc.md:5: link to #missing: no such heading",
		"docs/doc.md:5: link to ../../outside.md: outside the repository",
		"docs/doc.md:9: link to missing.md: no such file",
	}
	if got := brokenLinks(dir, "docs/doc.md", prose); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
