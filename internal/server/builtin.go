package server

import (
	"context"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
)

// builtin are the methods of a hub that is used without any Go code.
type builtin struct{ h *hub.Hub }

// An identification is the answer of WhoAmI.
type identification struct {
	ConnectionID string `json:"connectionId"`
	UserID       string `json:"userId"`
	Instance     string `json:"instance"`
	Hub          string `json:"hub"`
	Transport    string `json:"transport"`
	Protocol     string `json:"protocol"`
}

func (b builtin) register() {
	b.h.Handle("Echo", hub.Func1(b.echo))
	b.h.Handle("WhoAmI", hub.Func0(b.whoAmI))
	b.h.Handle("JoinGroup", hub.Action1(b.joinGroup))
	b.h.Handle("LeaveGroup", hub.Action1(b.leaveGroup))
	b.h.Handle("SendToGroup", hub.Action3(b.sendToGroup))
	b.h.Handle("SendToUser", hub.Action3(b.sendToUser))
	b.h.Handle("SendToAll", hub.Action2(b.sendToAll))
}

func (b builtin) echo(_ context.Context, _ *hub.Caller, x protocol.Value) (protocol.Value, error) {
	return x, nil
}

func (b builtin) whoAmI(_ context.Context, from *hub.Caller) (identification, error) {
	return identification{
		ConnectionID: from.ConnectionID(), UserID: from.UserID(), Instance: b.h.Instance(), Hub: b.h.Name(),
		Transport: string(from.Transport()), Protocol: from.Protocol(),
	}, nil
}

func (b builtin) joinGroup(ctx context.Context, from *hub.Caller, group string) error {
	if err := need(from, "group:join:"+group); err != nil {
		return err
	}
	return forClient(from.AddToGroup(ctx, group))
}

func (b builtin) leaveGroup(ctx context.Context, from *hub.Caller, group string) error {
	return forClient(from.RemoveFromGroup(ctx, group))
}

func (b builtin) sendToGroup(ctx context.Context, from *hub.Caller, group, target string, args []protocol.Value) error {
	if err := need(from, "group:send:"+group); err != nil {
		return err
	}
	return forClient(from.Clients().Group(group).Send(ctx, target, boxed(args)...))
}

func (b builtin) sendToUser(ctx context.Context, from *hub.Caller, user, target string, args []protocol.Value) error {
	if err := need(from, "user:send:"+user); err != nil {
		return err
	}
	return forClient(from.Clients().User(user).Send(ctx, target, boxed(args)...))
}

func (b builtin) sendToAll(ctx context.Context, from *hub.Caller, target string, args []protocol.Value) error {
	if err := need(from, "all:send"); err != nil {
		return err
	}
	return forClient(from.Clients().All().Send(ctx, target, boxed(args)...))
}

// need refuses a caller without the permission.
func need(from *hub.Caller, permission string) error {
	if from.Identity().Allows(permission) {
		return nil
	}
	return hub.Errorf("permission %q is missing", permission)
}

// boxed passes arguments on as they came: each keeps its raw form, so that
// integers stay integers in whatever protocol they arrive.
func boxed(args []protocol.Value) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}
