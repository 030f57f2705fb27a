package dialect

import (
	"math"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// An Action is what a group command asks for. Other values than the two may
// come from newer peers: the owner of the connection does nothing and
// acknowledges.
type Action uint8

// The actions.
const (
	Add    Action = 1
	Remove Action = 2
)

// A GroupCommand asks the instance that owns a connection to add it to a group
// or to remove it. It travels on the channel of the kind [GroupCommands] to
// all instances; those without the connection drop it and never answer.
type GroupCommand struct {
	// ID is the sender's number for the command, repeated in the ack. .NET
	// counts from 1 and wraps to negative numbers.
	ID int32

	// Server is the server name of the sender, which waits on [DotNet.Ack].
	Server string

	Action       Action
	Group        string
	ConnectionID string
}

// AppendGroupCommand appends c to dst.
func AppendGroupCommand(dst []byte, c GroupCommand) []byte {
	dst = msgp.AppendArrayHeader(dst, 5)
	dst = appendInt(dst, int64(c.ID))
	dst = msgp.AppendString(dst, c.Server)
	dst = appendInt(dst, int64(c.Action))
	dst = msgp.AppendString(dst, c.Group)
	return msgp.AppendString(dst, c.ConnectionID)
}

// ParseGroupCommand parses a payload. Its strings share one allocation. An
// action that is not known is no error; one that does not fit a byte is.
func ParseGroupCommand(b []byte) (GroupCommand, error) {
	r := reader{b: b, envelope: envGroupCommand}
	r.array(5)
	id := r.integer("command id", math.MinInt32, math.MaxInt32)
	server := r.str("server name")
	action := r.integer("action", 0, math.MaxUint8)
	group := r.str("group name")
	conn := r.str("connection id")
	if r.err != nil {
		return GroupCommand{}, r.err
	}
	var names strings.Builder // one allocation instead of three
	afterServer, afterGroup := len(server), len(server)+len(group)
	names.Grow(afterGroup + len(conn))
	names.Write(server)
	names.Write(group)
	names.Write(conn)
	all := names.String()
	return GroupCommand{
		ID:           int32(id),
		Server:       all[:afterServer],
		Action:       Action(action),
		Group:        all[afterServer:afterGroup],
		ConnectionID: all[afterGroup:],
	}, nil
}

// AppendAck appends the acknowledgement of the command with that id. It
// travels on the channel [DotNet.Ack] of the server that sent the command.
func AppendAck(dst []byte, id int32) []byte {
	dst = msgp.AppendArrayHeader(dst, 1)
	return appendInt(dst, int64(id))
}

// ParseAck parses a payload and returns the id of the acknowledged command.
func ParseAck(b []byte) (int32, error) {
	r := reader{b: b, envelope: envAck}
	r.array(1)
	id := r.integer("command id", math.MinInt32, math.MaxInt32)
	return int32(id), r.error()
}

// A Completion carries what a client answered to an invocation of another
// instance. It travels on the invocation's return channel.
type Completion struct {
	// Protocol is the name of the hub protocol the frame is written in: that
	// of the connection that was asked.
	Protocol string

	// Frame is a complete Completion record, framing included.
	Frame []byte
}

// AppendCompletion appends c to dst.
func AppendCompletion(dst []byte, c Completion) []byte {
	dst = msgp.AppendArrayHeader(dst, 2)
	dst = msgp.AppendString(dst, c.Protocol)
	return msgp.AppendBytes(dst, c.Frame)
}

// ParseCompletion parses a payload. The frame is part of b. It is not looked
// into: whether it is a whole record is for the hub protocol to say.
func ParseCompletion(b []byte) (Completion, error) {
	r := reader{b: b, envelope: envCompletion}
	r.array(2)
	protocol := r.str(itemProtocol)
	frame := r.bin(itemFrame)
	if r.err != nil {
		return Completion{}, r.err
	}
	return Completion{Protocol: name(protocol, ""), Frame: frame}, nil
}
