package main

import (
	"time"

	"github.com/switchboard-hub/switchboard/client"
)

const (
	stopTimeout = 5 * time.Second
)

type sendCommand struct {
	remoteFlags `embed:""`

	Group string   `help:"Send to the members of this group." xor:"to" required:"" placeholder:"NAME" env:"-"`
	User  string   `help:"Send to the connections of this user." xor:"to" required:"" placeholder:"ID" env:"-"`
	All   bool     `help:"Send to every connection." xor:"to" required:"" env:"-"`
	Call  string   `arg:"" help:"Client method to call." name:"target"`
	Args  []string `arg:"" optional:"" help:"Arguments: JSON where they are JSON, else strings. Put -- in front of the first argument of all if one begins with a dash." name:"arg"`
}

// Run sends one message.
func (c *sendCommand) Run(streams) error {
	ctx, cancel := untilInterrupted()
	defer cancel()
	args := make([]any, len(c.Args))
	for i, a := range c.Args {
		args[i] = argument(a)
	}
	opts, err := c.options()
	if err != nil {
		return err
	}
	remote, err := client.New(opts)
	if err != nil {
		return &usageError{err.Error()}
	}
	if err := remote.Start(ctx); err != nil {
		return err
	}
	defer stop(remote)
	switch {
	case c.Group != "":
		return remote.Call(ctx, "SendToGroup", c.Group, c.Call, args)
	case c.User != "":
		return remote.Call(ctx, "SendToUser", c.User, c.Call, args)
	}
	return remote.Call(ctx, "SendToAll", c.Call, args)
}
