package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

const (
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

type tailCommand struct {
	remoteFlags `embed:""`

	Count int    `help:"Stop after this many messages; 0 means never." placeholder:"N" env:"-"`
	Group string `arg:"" help:"Group to join."`
}

// A line is one message as tail prints it.
type line struct {
	At     time.Time        `json:"at"`
	Target string           `json:"target"`
	Args   []protocol.Value `json:"args"`
}

// Run prints until it is interrupted. After a lost connection it comes back
// and joins again, and says so on standard error.
func (c *tailCommand) Run(std streams) error {
	ctx, cancel := untilInterrupted()
	defer cancel()
	opts, err := c.options()
	if err != nil {
		return err
	}
	opts.Reconnect = client.RetryForever(reconnectFirst, reconnectMost)
	remote, err := client.New(opts)
	if err != nil {
		return &usageError{err.Error()}
	}
	// One slot: the first reason to end is the one that counts.
	ended := make(chan error, 1)
	end := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	left := c.Count
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	remote.OnAny(func(target string, args client.Args) {
		l := line{At: time.Now().UTC(), Target: target, Args: []protocol.Value{}}
		for i := range args.Len() {
			l.Args = append(l.Args, args.Value(i))
		}
		if err := out.Encode(l); err != nil {
			end(err)
			return
		}
		if left--; left == 0 {
			end(nil)
		}
	})
	remote.OnReconnecting(func(err error) {
		if err == nil { // the server's polite end
			err = errors.New("the server has ended the connection")
		}
		fmt.Fprintln(std.err, "switchboard: connection lost, reconnecting:", err)
	})
	remote.OnReconnected(func(string) {
		if err := remote.Call(ctx, "JoinGroup", c.Group); err != nil {
			end(err)
			return
		}
		fmt.Fprintln(std.err, "switchboard: joined", c.Group, "again; messages in between are lost")
	})
	remote.OnClosed(func(err error) {
		if err == nil {
			err = errors.New("the server ended the connection")
		}
		end(err)
	})
	if err := remote.Start(ctx); err != nil {
		return err
	}
	defer stop(remote)
	if err := remote.Call(ctx, "JoinGroup", c.Group); err != nil {
		return err
	}
	fmt.Fprintln(std.err, "switchboard: joined", c.Group)
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}
