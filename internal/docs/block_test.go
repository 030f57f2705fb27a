package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A block is one block of code in a document.
type block struct {
	file     string // of the document
	line     int    // of the fence
	code     string
	with     string // hidden declarations in front of it
	withLine int    // of their first line
}

const (
	fence     = "```"
	withBegin = "<!-- with:"
	withEnd   = "-->"

	// fileName has no directory: line directives are relative to it.
	fileName = "block.go"
)

// goBlocks finds the blocks of Go in a document. The text that comes back is
// the document without any code, line by line.
func goBlocks(file, text string) (blocks []block, prose []string, err error) {
	lines := strings.Split(text, "\n")
	prose = make([]string, len(lines))
	var with string
	var withLine int
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case strings.HasPrefix(line, fence):
			first := i + 1
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
			}
			if i == len(lines) {
				return nil, nil, fmt.Errorf("%s:%d: this block does not end", file, first)
			}
			if strings.TrimPrefix(line, fence) == "go" {
				code := strings.Join(lines[first:i], "\n") + "\n"
				blocks = append(blocks, block{file: file, line: first, code: code, with: with, withLine: withLine})
			} else if with != "" {
				return nil, nil, fmt.Errorf("%s:%d: hidden declarations before a block that is not Go", file, withLine)
			}
			with = ""
		case with != "" && line != "":
			return nil, nil, fmt.Errorf("%s:%d: hidden declarations that no block follows", file, withLine)
		case strings.HasPrefix(line, withBegin):
			withLine = i + 1
			hidden := lines[i]
			for ; i+1 < len(lines) && !strings.Contains(lines[i], withEnd); i++ {
				hidden += "\n" + lines[i+1]
			}
			_, hidden, _ = strings.Cut(hidden, withBegin)
			with, _, _ = strings.Cut(hidden, withEnd)
		default:
			prose[i] = lines[i]
		}
	}
	if with != "" {
		return nil, nil, fmt.Errorf("%s:%d: hidden declarations that no block follows", file, withLine)
	}
	return blocks, prose, nil
}

// usualImports are the packages that blocks may name without importing them.
func usualImports() map[string]string {
	imports := map[string]string{
		"jwt":       "github.com/golang-jwt/jwt/v5",
		"hub":       module + "/hub",
		"hubtest":   module + "/hub/hubtest",
		"protocol":  module + "/hub/protocol",
		"transport": module + "/hub/transport",
		"client":    module + "/client",
		"backplane": module + "/backplane",
		"memory":    module + "/backplane/memory",
	}
	for _, path := range []string{
		"context", "crypto/rand", "encoding/json", "errors", "fmt", "io", "iter", "log", "log/slog", "maps", "net/http",
		"net/http/httptest", "net/url", "os", "os/signal", "slices", "strconv", "strings", "sync", "testing", "time",
	} {
		imports[path[strings.LastIndexByte(path, '/')+1:]] = path
	}
	return imports
}

// usualVariables are those that blocks may use without declaring them.
func usualVariables() map[string]string {
	return map[string]string{
		"ctx":  "context.Context",
		"h":    "*hub.Hub",
		"from": "*hub.Caller",
		"mux":  "*http.ServeMux",
		"c":    "*client.Client",
		"t":    "*testing.T",
	}
}

// parse makes a file of a block. Fragments are those of statements.
func (b block) parse(set *token.FileSet) (f *ast.File, fragment bool, err error) {
	if strings.HasPrefix(strings.TrimSpace(b.code), "package ") {
		f, err = parser.ParseFile(set, fileName, b.at()+b.code, 0)
		return f, false, err
	}
	hidden := ""
	if b.with != "" {
		hidden = fmt.Sprintf("//line %s:%d\n%s\n", b.file, b.withLine, b.with)
	}
	body := b.at() + b.code
	if f, err = parser.ParseFile(token.NewFileSet(), fileName, "package docs\n"+body, 0); err != nil {
		fragment = true
		body = "func _() {\n" + body + "}\n"
		if _, err = parser.ParseFile(token.NewFileSet(), fileName, "package docs\n"+body, 0); err != nil {
			return nil, true, err
		}
	}
	body = hidden + body
	if f, err = parser.ParseFile(token.NewFileSet(), fileName, "package docs\n"+body, 0); err != nil {
		return nil, fragment, err
	}
	f, err = parser.ParseFile(set, fileName, "package docs\n"+preamble(f)+body, 0)
	return f, fragment, err
}

// at says where the code stands in its document.
func (b block) at() string { return fmt.Sprintf("//line %s:%d\n", b.file, b.line+1) }

// preamble declares what a file names without saying where it is from.
func preamble(f *ast.File) string {
	unresolved := map[string]bool{}
	for _, name := range f.Unresolved {
		unresolved[name.Name] = true
	}
	var variables strings.Builder
	for _, name := range slices.Sorted(maps.Keys(unresolved)) {
		if kind, usual := usualVariables()[name]; usual {
			fmt.Fprintf(&variables, "var %s %s\n", name, kind)
			qualifier, _, _ := strings.Cut(strings.TrimPrefix(kind, "*"), ".")
			unresolved[qualifier] = true
		}
	}
	var imports strings.Builder
	for _, name := range slices.Sorted(maps.Keys(unresolved)) {
		if path, usual := usualImports()[name]; usual {
			fmt.Fprintf(&imports, "import %q\n", path)
		}
	}
	return imports.String() + variables.String()
}

// imported are the paths that a file imports.
func imported(f *ast.File) []string {
	var paths []string
	for _, spec := range f.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}
