package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/server"
)

type serveCommand struct {
	Listen         string        `help:"Address to serve on. Default: ${default}." default:"${listen}" placeholder:"HOST:PORT"`
	Redis          string        `help:"Redis that instances share: redis://, rediss:// or unix://. None: this instance is alone." placeholder:"URL"`
	Instance       string        `help:"Name of this instance. Default: host name and a UUID." placeholder:"NAME"`
	Hub            []string      `help:"Hub as path=key; the key is the .NET full type name in a mixed fleet. Repeatable. Default: ${default}." default:"${hub}" placeholder:"PATH=KEY" sep:"none"`
	ChannelPrefix  string        `help:"Put in front of every Redis channel, as in StackExchange.Redis: no separator is added." placeholder:"PREFIX"`
	KeyPrefix      string        `help:"Put in front of every Redis key. Default: ${default}." default:"sb:" placeholder:"PREFIX"`
	Advertise      string        `help:"Address under which the other instances reach this one. Default: the port of --listen, and its host or else the local address of the connection to Redis." placeholder:"HOST:PORT"`
	OnRedisMissing string        `help:"Start without Redis: wait (up, not ready) or fail (exit 1)." enum:"wait,fail" default:"wait"`
	AllowOrigin    []string      `help:"Origin of browsers that may connect besides the same origin. Repeatable." placeholder:"ORIGIN" sep:"none"`
	Insecure       bool          `help:"Listen off loopback although nobody is asked who they are. Host must still be a loopback name."`
	DrainTimeout   time.Duration `help:"How long a polite stop may take, such as 30s." default:"${drain}"`
	MaxConnections int           `help:"Most connections per hub; 0 means no bound but the file limit of the process." default:"0"`
	logFlags       `embed:""`
}

// config makes the instance's configuration of the flags.
func (c *serveCommand) config(log io.Writer) (server.Config, error) {
	cfg := server.Config{
		Listen: c.Listen, Redis: c.Redis, Instance: c.Instance, ChannelPrefix: c.ChannelPrefix, KeyPrefix: c.KeyPrefix,
		OnRedisMissing: server.MissingPolicy(c.OnRedisMissing), AllowedOrigins: c.AllowOrigin, Insecure: c.Insecure,
		DrainTimeout: c.DrainTimeout, Advertise: c.Advertise, MaxConnections: c.MaxConnections, Version: version(), Logger: c.logger(log),
	}
	for _, s := range c.Hub {
		h, err := server.ParseHubPath(s)
		if err != nil {
			return cfg, &usageError{"hub: " + err.Error()}
		}
		cfg.Hubs = append(cfg.Hubs, h)
	}
	return cfg, nil
}

// Run serves until a signal comes.
func (c *serveCommand) Run(std streams) error {
	cfg, err := c.config(std.err)
	if err != nil {
		return err
	}
	backplane.RouteLogs(cfg.Logger)
	var s *server.Server
	cfg.Started = func() { announce(std.out, s) }
	s, err = server.New(cfg)
	if err != nil {
		return err
	}
	if err := s.Listen(); err != nil {
		return err
	}
	return runUntilSignal(s.Run, s.Drain)
}

// announce prints where everything is.
func announce(w io.Writer, s *server.Server) {
	base := "http://" + visible(s.Addr())
	fmt.Fprintf(w, "instance   %s\n", s.Instance())
	fmt.Fprintf(w, "dashboard  %s/\n", base)
	for _, path := range s.Paths() {
		fmt.Fprintf(w, "hub        %s%s\n", base, path)
	}
	fmt.Fprintf(w, "health     %s/readyz\n", base)
}

// visible is the address to show for one that was listened on.
func visible(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// runUntilSignal runs something until SIGINT or SIGTERM, then drains it; a
// second signal stops it at once.
func runUntilSignal(run func(context.Context) error, drain func(context.Context) error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-signals:
	}
	drained := make(chan error, 1)
	go func() { drained <- drain(ctx) }()
	select {
	case <-signals:
	case <-drained:
	case err := <-done:
		return err
	}
	stop()
	hurry := time.NewTimer(stopTimeout)
	defer hurry.Stop()
	select {
	case err := <-done:
		return err
	case <-signals:
		return errors.New("stopped by another signal before everything had ended")
	case <-hurry.C:
	}
	return errors.New("stopped although something, such as a method, had not ended")
}
