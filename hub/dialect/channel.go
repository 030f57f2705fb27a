package dialect

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A Kind is what a channel is for; it decides which envelope travels on it.
type Kind uint8

// The kinds of channels. The zero Kind is none of them.
const (
	All           Kind = iota + 1 // an invocation for all connections
	GroupCommands                 // a group command for the owner of a connection
	Ack                           // the answer to a group command
	Return                        // the answer of a client to an invocation
	Group                         // an invocation for the members of a group
	User                          // an invocation for the connections of a user
	Connection                    // an invocation for one connection
)

// String returns the kind as it is spelled in channel names.
func (k Kind) String() string {
	switch k {
	case All:
		return "all"
	case GroupCommands:
		return "internal:groups"
	case Ack:
		return "internal:ack"
	case Return:
		return "internal:return"
	case Group:
		return "group"
	case User:
		return "user"
	case Connection:
		return "connection"
	}
	return "none"
}

// What follows the hub key in channel names.
const (
	allSuffix           = ":all"
	groupCommandsSuffix = ":internal:groups"
	ackInfix            = ":internal:ack:"
	returnInfix         = ":internal:return:"
	groupInfix          = ":group:"
	userInfix           = ":user:"
	connectionInfix     = ":connection:"
)

// DotNet names the channels of one hub as ASP.NET Core does.
//
// HubKey is the full name of the hub's .NET type (namespace and class, such as
// "Contoso.Chat.Hubs.ChatHub"): two instances whose keys differ share nothing
// and see no error. Names are case-sensitive and contain no channel prefix.
type DotNet struct{ HubKey string }

// All is the channel of messages for all connections.
func (d DotNet) All() string { return d.HubKey + allSuffix }

// GroupCommands is the channel of group commands.
func (d DotNet) GroupCommands() string { return d.HubKey + groupCommandsSuffix }

// Ack is the channel on which the named server waits for acks.
func (d DotNet) Ack(server string) string { return d.HubKey + ackInfix + server }

// Return is the channel on which the named server waits for completions. The
// same string, without a channel prefix, is [Invocation.ReturnChannel].
func (d DotNet) Return(server string) string { return d.HubKey + returnInfix + server }

// Group is the channel of messages for a group. The name is taken literally:
// "*" is a group like any other.
func (d DotNet) Group(name string) string { return d.HubKey + groupInfix + name }

// User is the channel of messages for a user.
func (d DotNet) User(id string) string { return d.HubKey + userInfix + id }

// Connection is the channel of messages for one connection.
func (d DotNet) Connection(id string) string { return d.HubKey + connectionInfix + id }

// ParseChannel takes a channel name of this hub apart; the channel prefix must
// have been stripped. The name is that of the server, group, user or
// connection, possibly empty, and is part of channel: nothing is allocated.
// ok is false for every channel that is not one of this hub's.
func (d DotNet) ParseChannel(channel string) (k Kind, name string, ok bool) {
	rest, ok := strings.CutPrefix(channel, d.HubKey)
	if !ok {
		return 0, "", false
	}
	switch rest {
	case allSuffix:
		return All, "", true
	case groupCommandsSuffix:
		return GroupCommands, "", true
	}
	if name, ok = strings.CutPrefix(rest, groupInfix); ok {
		return Group, name, true
	}
	if name, ok = strings.CutPrefix(rest, userInfix); ok {
		return User, name, true
	}
	if name, ok = strings.CutPrefix(rest, connectionInfix); ok {
		return Connection, name, true
	}
	if name, ok = strings.CutPrefix(rest, ackInfix); ok {
		return Ack, name, true
	}
	if name, ok = strings.CutPrefix(rest, returnInfix); ok {
		return Return, name, true
	}
	return 0, "", false
}

// NewServerName returns a new name for one hub of one process: the machine's
// name up to its first dot, an underscore and a random (version 4) UUID as 32
// hexadecimal digits, the shape of the names that .NET servers give
// themselves. Peers treat it as opaque; only its uniqueness matters.
func NewServerName(machine string) string {
	var id [16]byte
	rand.Read(id[:])          // never fails
	id[6] = id[6]&0x0f | 0x40 // version and variant, RFC 9562 section 5.4
	id[8] = id[8]&0x3f | 0x80
	host, _, _ := strings.Cut(machine, ".")
	return host + "_" + hex.EncodeToString(id[:])
}
