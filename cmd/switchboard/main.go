// Command switchboard runs a SignalR server and talks to one.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"github.com/switchboard-hub/switchboard/internal/server"
)

// Exit codes of every command.
const (
	exitClean  = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the whole command line.
type cli struct {
	Config string `help:"YAML file with values for flags that are neither given nor in the environment." type:"path" placeholder:"FILE"`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version." env:"-"`

	Serve   serveCommand   `cmd:"" help:"Run one instance."`
	Demo    demoCommand    `cmd:"" help:"Run two instances behind a balancer, with something to watch. Needs nothing else."`
	Send    sendCommand    `cmd:"" help:"Call a client method of exactly one of --group, --user and --all."`
	Tail    tailCommand    `cmd:"" help:"Print what a group receives, one JSON line per message."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct{ out, err io.Writer }

func main() { os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr})) }

// run parses the arguments, runs the command and returns its exit code.
func run(args []string, std streams) int {
	var c cli
	exited := -1
	parser, err := newParser(&c, std, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(std.err, "switchboard:", err)
		return exitFailed
	}
	ctx, err := parse(parser, &c, args)
	if exited >= 0 { // --help has printed what there is to say
		return exited
	}
	if err != nil {
		fmt.Fprintln(std.err, "switchboard:", err, "(switchboard --help shows all)")
		return exitUsage
	}
	if err := ctx.Run(std); err != nil {
		fmt.Fprintln(std.err, "switchboard:", err)
		var config *server.ConfigError
		var usage *usageError
		if errors.As(err, &config) || errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailed
	}
	return exitClean
}

func newParser(c *cli, std streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("switchboard"),
		kong.Description("A SignalR server whose instances share groups, users and connections through Redis."),
		kong.DefaultEnvars("SWITCHBOARD"),
		kong.Writers(std.out, std.err),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{
			"version": fullVersion(),
			"listen":  server.DefaultListen, "hub": server.DefaultHubPath + "=" + server.DefaultHubKey,
			"drain": server.DefaultDrainTimeout.String(),
		},
	)
}

// A usageError is a wrong argument that the parser could not know about.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// logFlags choose what is logged and how.
type logFlags struct {
	LogLevel  string `help:"Least level that is logged: ${enum}." enum:"debug,info,warn,error" default:"info"`
	LogFormat string `help:"Form of the log: ${enum}." enum:"text,json" default:"text"`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		level = slog.LevelInfo // the parser let only levels through
	}
	opts := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
