package main

import (
	"fmt"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/internal/demo"
)

type demoCommand struct {
	Listen   string `help:"Address of the balancer. Default: ${default}." default:"${listen}" placeholder:"HOST:PORT"`
	Redis    string `help:"Redis for the two instances to share. None: in memory." placeholder:"URL"`
	logFlags `embed:""`
}

// Run runs the demo until a signal comes.
func (c *demoCommand) Run(std streams) error {
	log := c.logger(std.err)
	backplane.RouteLogs(log)
	d, err := demo.New(demo.Options{Listen: c.Listen, Redis: c.Redis, Version: version(), Logger: log})
	if err != nil {
		return err
	}
	base := "http://" + visible(d.Addr())
	fmt.Fprintf(std.out, "\n  Open  %s/\n\nhub        %s/hub\n", base, base)
	for i, addr := range d.Instances() {
		fmt.Fprintf(std.out, "instance   http://%s/  (demo-%c)\n", addr, 'a'+i)
	}
	return runUntilSignal(d.Run, d.Drain)
}
