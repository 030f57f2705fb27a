package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/switchboard-hub/switchboard"

// A checker compiles blocks against the module in a directory.
type checker struct {
	root     string
	set      *token.FileSet
	files    []checked
	problems []string
}

// A checked is a block that could be parsed.
type checked struct {
	block    block
	file     *ast.File
	fragment bool
}

// compile returns a line for every error in the blocks. It runs the go command
// once, for what the blocks import.
func compile(root string, blocks []block) ([]string, error) {
	c := &checker{root: root, set: token.NewFileSet()}
	for _, b := range blocks {
		f, fragment, err := b.parse(c.set)
		if err != nil {
			c.problems = append(c.problems, err.Error())
			continue
		}
		c.files = append(c.files, checked{b, f, fragment})
	}
	lookup, err := c.exports()
	if err != nil {
		return nil, err
	}
	imports := importer.ForCompiler(c.set, "gc", lookup)
	for _, f := range c.files {
		c.typeCheck(f, imports)
	}
	return c.problems, nil
}

// exports has the go command build what the blocks import, and finds it.
func (c *checker) exports() (func(path string) (io.ReadCloser, error), error) {
	var paths []string
	for _, f := range c.files {
		for _, path := range imported(f.file) {
			if !strings.Contains(path, "/internal/") { // no reader could
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	exports := map[string]string{}
	if len(paths) > 0 {
		args := append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export"}, paths...)
		cmd := exec.Command("go", args...)
		cmd.Dir = c.root
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ ImportPath, Export string }
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			exports[p.ImportPath] = p.Export
		}
	}
	return func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no such package for readers: %q", path)
		}
		return os.Open(exports[path])
	}, nil
}

// typeCheck notes the errors of one block.
func (c *checker) typeCheck(f checked, imports types.Importer) {
	conf := types.Config{
		Importer: imports,
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && e.Soft && f.fragment {
				return // what is unused here is used further on
			}
			if errors.As(err, &e) {
				p := c.set.Position(e.Pos)
				err = fmt.Errorf("%s:%d: %s", p.Filename, p.Line, e.Msg)
			}
			c.problems = append(c.problems, err.Error())
		},
	}
	pkg, err := conf.Check("docs", c.set, []*ast.File{f.file}, nil)
	if err == nil && pkg.Name() == "main" && pkg.Scope().Lookup("main") == nil {
		c.problems = append(c.problems, fmt.Sprintf("%s:%d: a program without main", f.block.file, f.block.line))
	}
}
