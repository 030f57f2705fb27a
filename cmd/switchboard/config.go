package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// configEnv names the file when --config does not.
const configEnv = "SWITCHBOARD_CONFIG"

// parse reads the command line with one precedence: flag over environment over
// file over default.
func parse(parser *kong.Kong, c *cli, args []string) (*kong.Context, error) {
	path := configPath(args)
	if path == "" {
		return parser.Parse(args)
	}
	values, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	resolver := &fileResolver{path: path, values: values, known: map[string]bool{}}
	if err := kong.Resolvers(resolver).Apply(parser); err != nil {
		return nil, err
	}
	return parser.Parse(args)
}

// configPath finds the file's name before anything else is parsed.
func configPath(args []string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
		if arg == "--" {
			break
		}
	}
	return os.Getenv(configEnv)
}

// readConfig reads a flat YAML mapping of flag names to values.
func readConfig(path string) (map[string]any, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	return values, nil
}

// A fileResolver gives flags their values from the file, where the environment
// has none: kong alone would let the file win.
type fileResolver struct {
	path   string
	values map[string]any
	known  map[string]bool
}

// Validate refuses keys that are no flag of any command.
func (r *fileResolver) Validate(app *kong.Application) error {
	names := map[string]bool{}
	for _, group := range append([][]*kong.Flag{app.Flags}, flagsBelow(app.Node)...) {
		for _, f := range group {
			names[f.Name] = true
		}
	}
	var errs []error
	for key := range r.values {
		if !names[key] {
			errs = append(errs, fmt.Errorf("config %s: %q is not a setting", r.path, key))
		}
	}
	return errors.Join(errs...)
}

func flagsBelow(n *kong.Node) [][]*kong.Flag {
	var all [][]*kong.Flag
	for _, child := range n.Children {
		all = append(all, child.Flags)
		all = append(all, flagsBelow(child)...)
	}
	return all
}

// Resolve returns the file's value for a flag, or nil.
func (r *fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	value, ok := r.values[flag.Name]
	if !ok {
		return nil, nil
	}
	return value, nil
}
