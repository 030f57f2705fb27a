package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// remoteFlags name the server that a command talks to.
type remoteFlags struct {
	Server      string `help:"Server to talk to. Default: ${default}." default:"http://127.0.0.1:8080" placeholder:"URL"`
	HubPath     string `help:"Path of the hub. Default: ${default}." default:"/hub" placeholder:"PATH"`
	Token       string `help:"Access token." placeholder:"TOKEN"`
	Transport   string `help:"The one transport to use: WebSockets, ServerSentEvents or LongPolling. Default: the first of them that works." enum:",WebSockets,ServerSentEvents,LongPolling" default:"" placeholder:"NAME"`
	MessagePack bool   `help:"Speak MessagePack instead of JSON." name:"messagepack"`
}

// options are those of the client that the flags ask for.
func (f remoteFlags) options() (client.Options, error) {
	if !strings.HasPrefix(f.HubPath, "/") {
		return client.Options{}, &usageError{"hub-path: " + f.HubPath + " does not begin with a slash"}
	}
	o := client.Options{URL: strings.TrimSuffix(f.Server, "/") + f.HubPath, Protocol: protocol.JSON{}}
	if f.MessagePack {
		o.Protocol = protocol.MessagePack{}
	}
	if f.Transport != "" {
		o.Transports = []client.Transport{client.Transport(f.Transport)}
	}
	if f.Token != "" {
		o.AccessToken = func(context.Context) (string, error) { return f.Token, nil }
	}
	return o, nil
}

// untilInterrupted is a context that ends with SIGINT or SIGTERM.
func untilInterrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// stop ends a client politely, within bounds.
func stop(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	c.Stop(ctx) // what it was for has been done
}

// argument reads an argument from the command line: JSON where it is JSON,
// else a string.
func argument(s string) any {
	if json.Valid([]byte(s)) {
		return protocol.NewValue(protocol.JSON{}, []byte(s))
	}
	return s
}
