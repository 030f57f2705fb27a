// Command conformance is a host for client programs that judge a SignalR
// server: a fixed set of hubs and endpoints with known answers, on the public
// API of the library. It is for tests only: it lets every origin in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitClean  = 0
	exitFailed = 1
	exitUsage  = 2
)

// config is the command line.
type config struct {
	http        string // address of the plain listener
	https       string // address of the TLS listener; empty: none
	static      string // directory served at /; empty: none
	uncreatable string // message of the hub that fails on connect
	log         *slog.Logger
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run parses the arguments, serves until ctx ends and returns the exit code.
func run(ctx context.Context, args []string, out, logs io.Writer) int {
	cfg := config{log: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(logs)
	flags.StringVar(&cfg.http, "http", "127.0.0.1:0", "`address` of the plain listener")
	flags.StringVar(&cfg.https, "https", "", "`address` of a TLS listener with a certificate made at start; empty for none")
	flags.StringVar(&cfg.static, "static", "", "`directory` whose files are served at /; empty for none")
	flags.StringVar(&cfg.uncreatable, "uncreatable-message", "the hub cannot be created", "`text` of the error with which /uncreatable fails")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitClean
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(logs, "conformance: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	if err := serve(ctx, cfg, out); err != nil {
		fmt.Fprintln(logs, "conformance:", err)
		return exitFailed
	}
	return exitClean
}
