package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/switchboard-hub/switchboard/backplane/memory"
	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// TickGroup is the group that the publishers send to, and TickTarget the
// client method they call.
const (
	TickGroup  = "demo/ticks"
	TickTarget = "Tick"
)

// Options configure a Demo. The zero value listens on server.DefaultListen and
// shares nothing with anybody.
type Options struct {
	Listen  string        // of the balancer; port 0 takes a free one
	Redis   string        // URL; empty means an in-memory backplane
	Every   time.Duration // between two ticks of one instance; zero means 1 s
	Version string
	Logger  *slog.Logger
}

// A Demo is the fleet.
type Demo struct {
	opts      Options
	links     []*memory.Backplane // empty with Redis
	instances []*server.Server
	listener  net.Listener
}

// A Tick is what every instance says every second.
type Tick struct {
	Instance string `json:"instance"`
	N        int    `json:"n"`
	At       int64  `json:"at"` // milliseconds since 1970
}

// New makes the fleet and takes its ports.
func New(o Options) (*Demo, error) {
	if o.Listen == "" {
		o.Listen = server.DefaultListen
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// The same rule as for serve: nobody is asked who they are.
	if _, err := server.New(server.Config{Listen: o.Listen}); err != nil {
		return nil, err
	}
	d := &Demo{opts: o}
	broker := memory.New()
	for _, name := range []string{"demo-a", "demo-b"} {
		cfg := server.Config{
			Listen: "127.0.0.1:0", Redis: o.Redis, Instance: name, Version: o.Version,
			DemoGroups: []string{TickGroup}, Logger: o.Logger,
		}
		if o.Redis == "" {
			link := broker.Connect()
			d.links = append(d.links, link)
			cfg.Backplane = link
		}
		s, err := server.New(cfg)
		if err != nil {
			return nil, err
		}
		if err := s.Listen(); err != nil {
			return nil, err
		}
		d.instances = append(d.instances, s)
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d.listener = l
	return d, nil
}

// Addr is the balancer's address.
func (d *Demo) Addr() string { return d.listener.Addr().String() }

// Instances returns the addresses of the instances.
func (d *Demo) Instances() []string {
	addrs := make([]string, len(d.instances))
	for i, s := range d.instances {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Run serves until ctx ends or a part of the fleet fails for good.
func (d *Demo) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var carrying, running sync.WaitGroup
	links, unlink := context.WithCancel(context.WithoutCancel(ctx))
	defer unlink()
	for _, l := range d.links {
		carrying.Go(func() {
			if err := l.Run(links); err != nil {
				cancel(err)
			}
		})
	}
	part := func(run func(context.Context) error) {
		running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for _, s := range d.instances {
		part(s.Run)
		part(func(ctx context.Context) error { return d.publish(ctx, s) })
	}
	part(d.balance)
	running.Wait()
	unlink()
	carrying.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// Drain ends the instances politely.
func (d *Demo) Drain(ctx context.Context) error {
	var errs []error
	for _, s := range d.instances {
		errs = append(errs, s.Drain(ctx))
	}
	return errors.Join(errs...)
}

func (d *Demo) balance(ctx context.Context) error {
	return server.Serve(ctx, d.listener, NewBalancer(d.opts.Logger, d.Instances()...), d.opts.Logger)
}

// publish makes something happen on one instance, for clients of both.
func (d *Demo) publish(ctx context.Context, s *server.Server) error {
	h := s.Hub(server.DefaultHubKey)
	tick := time.NewTicker(d.opts.Every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case at := <-tick.C:
			err := h.Clients().Group(TickGroup).Send(ctx, TickTarget, Tick{Instance: s.Instance(), N: n, At: at.UnixMilli()})
			if err != nil && !errors.Is(err, hub.ErrUnavailable) && ctx.Err() == nil {
				return err
			}
		}
	}
}
