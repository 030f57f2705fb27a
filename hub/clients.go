package hub

import (
	"context"
	"slices"
)

// Clients names recipients of messages, wherever in the fleet they are
// connected. Naming costs nothing; Send does the work.
type Clients struct{ h *Hub }

// CallerClients adds the recipients that are named relative to a caller.
type CallerClients struct {
	clients
	c *conn
}

// clients is Clients under a name that leaves the method of that name visible.
type clients = Clients

// A SingleClient is one connection as a recipient.
type SingleClient struct {
	h  *Hub
	id string
}

// Recipients are any number of connections as recipients.
type Recipients struct {
	h        *Hub
	kind     recipientKind
	name     string   // of one group or user
	names    []string // of several
	excluded []string
}

type recipientKind uint8

const (
	toAll recipientKind = iota
	toGroups
	toUsers
	toConnections
)

// All is every connection of the hub.
func (c Clients) All() Recipients { return Recipients{h: c.h, kind: toAll} }

// AllExcept is every connection but those with the given ids.
func (c Clients) AllExcept(connectionIDs ...string) Recipients {
	return Recipients{h: c.h, kind: toAll, excluded: connectionIDs}
}

// Client is the connection with that id. Sending to one that does not exist
// does nothing.
func (c Clients) Client(connectionID string) SingleClient { return SingleClient{c.h, connectionID} }

// Clients is the connections with the given ids, each once.
func (c Clients) Clients(connectionIDs ...string) Recipients {
	return Recipients{h: c.h, kind: toConnections, names: connectionIDs}
}

// Group is the members of a group.
func (c Clients) Group(group string) Recipients {
	return Recipients{h: c.h, kind: toGroups, name: group}
}

// GroupExcept is the members of a group but those with the given ids.
func (c Clients) GroupExcept(group string, connectionIDs ...string) Recipients {
	return Recipients{h: c.h, kind: toGroups, name: group, excluded: connectionIDs}
}

// Groups is the members of each group: one message per group, so that a member
// of two gets two.
func (c Clients) Groups(groups ...string) Recipients {
	return Recipients{h: c.h, kind: toGroups, names: groups}
}

// User is every connection of a user.
func (c Clients) User(userID string) Recipients {
	return Recipients{h: c.h, kind: toUsers, name: userID}
}

// Users is every connection of each user.
func (c Clients) Users(userIDs ...string) Recipients {
	return Recipients{h: c.h, kind: toUsers, names: userIDs}
}

// Caller is the calling connection itself.
func (c CallerClients) Caller() SingleClient { return SingleClient{c.h, c.c.id} }

// Others is every connection but the caller.
func (c CallerClients) Others() Recipients { return c.AllExcept(c.c.id) }

// OthersInGroup is the members of a group but the caller.
func (c CallerClients) OthersInGroup(group string) Recipients { return c.GroupExcept(group, c.c.id) }

// Send calls the client method target with the arguments. It returns when the
// message has its place in every local queue or in the publish queue, without
// waiting for any client. Messages that one goroutine sends one after another
// to the same recipients arrive in that order.
func (s SingleClient) Send(ctx context.Context, target string, args ...any) error {
	if err := validName("target", target); err != nil {
		return err
	}
	if c := s.h.registry.conn(s.id); c != nil {
		return s.h.sendHere(c, "", target, args)
	}
	if s.h.relay == nil {
		return nil
	}
	if err := validName("connection", s.id); err != nil {
		return err
	}
	payload, err := s.h.relay.encode("", nil, target, args)
	if err != nil {
		return err
	}
	return s.h.relay.publish(ctx, s.h.names.Connection(s.id), payload)
}

// Send calls the client method target of all the recipients, as
// SingleClient.Send does.
func (r Recipients) Send(ctx context.Context, target string, args ...any) error {
	if err := r.check(target); err != nil {
		return err
	}
	if r.h.relay == nil {
		return r.sendLocally(target, args)
	}
	return r.sendRelayed(ctx, target, args)
}

// SendConfirmed is Send that waits until the backplane has taken the message
// and says how many instances, this one included, were listening: of several
// names the sum. Without a backplane it counts this instance where it has
// recipients.
func (r Recipients) SendConfirmed(ctx context.Context, target string, args ...any) (instances int, err error) {
	if err := r.check(target); err != nil {
		return 0, err
	}
	if r.h.relay == nil {
		for _, s := range r.sets() {
			if s.size() > 0 {
				instances = 1
			}
		}
		return instances, r.sendLocally(target, args)
	}
	payload, err := r.h.relay.encode("", r.excluded, target, args)
	if err != nil {
		return 0, err
	}
	for _, channel := range r.channels() {
		n, err := r.h.relay.publishConfirmed(ctx, channel, payload)
		if err != nil {
			return instances, err
		}
		instances += n
	}
	return instances, nil
}

func (r Recipients) check(target string) error {
	if err := validName("target", target); err != nil {
		return err
	}
	kind := "user"
	switch r.kind {
	case toAll:
		return nil
	case toGroups:
		kind = "group"
	case toConnections:
		kind = "connection"
	}
	for _, name := range r.list() {
		if name == "" && r.kind == toGroups {
			return Errorf("Cannot send to an empty group name.")
		}
		if err := validName(kind, name); err != nil {
			return err
		}
	}
	return nil
}

// list returns the names of the recipients.
func (r *Recipients) list() []string {
	if r.names != nil || r.kind == toAll {
		return r.names
	}
	return []string{r.name}
}

// sets returns the local sets of the recipients.
func (r *Recipients) sets() []*set {
	var sets []*set
	add := func(s *set) {
		if s != nil {
			sets = append(sets, s)
		}
	}
	switch r.kind {
	case toAll:
		add(&r.h.registry.all)
	case toGroups:
		for _, name := range r.list() {
			add(r.h.registry.group(name))
		}
	case toUsers:
		for _, name := range r.list() {
			add(r.h.registry.user(name))
		}
	case toConnections:
		s := &set{}
		for _, id := range r.names {
			if c := r.h.registry.conn(id); c != nil {
				s.add(c)
			}
		}
		add(s)
	}
	return sets
}

// channels returns the channels of the recipients.
func (r *Recipients) channels() []string {
	names := r.list()
	channels := make([]string, 0, max(1, len(names)))
	switch r.kind {
	case toAll:
		channels = append(channels, r.h.names.All())
	case toGroups:
		for _, name := range names {
			channels = append(channels, r.h.names.Group(name))
		}
	case toUsers:
		for _, name := range names {
			channels = append(channels, r.h.names.User(name))
		}
	case toConnections:
		for i, id := range names {
			if !slices.Contains(names[:i], id) {
				channels = append(channels, r.h.names.Connection(id))
			}
		}
	}
	return channels
}

// sendLocally delivers without a backplane.
func (r *Recipients) sendLocally(target string, args []any) error {
	if r.kind == toGroups && r.names == nil {
		s := r.h.registry.group(r.name)
		if s == nil {
			return nil
		}
		return r.h.sendTo(s, r.excluded, target, args)
	}
	for _, s := range r.sets() {
		if err := r.h.sendTo(s, r.excluded, target, args); err != nil {
			return err
		}
	}
	return nil
}

// sendRelayed publishes for every instance, this one included: all see a
// group's messages in the one order of its channel. Only connections known to
// be here are served directly.
func (r *Recipients) sendRelayed(ctx context.Context, target string, args []any) error {
	if r.kind == toConnections {
		return r.sendEach(ctx, target, args)
	}
	payload, err := r.h.relay.encode("", r.excluded, target, args)
	if err != nil {
		return err
	}
	if r.kind == toGroups && r.names == nil {
		return r.h.relay.publish(ctx, r.h.names.Group(r.name), payload)
	}
	for _, channel := range r.channels() {
		if err := r.h.relay.publish(ctx, channel, payload); err != nil {
			return err
		}
	}
	return nil
}

// sendEach sends to several single connections.
func (r *Recipients) sendEach(ctx context.Context, target string, args []any) error {
	var payload []byte
	for i, id := range r.names {
		if slices.Contains(r.names[:i], id) {
			continue
		}
		if c := r.h.registry.conn(id); c != nil {
			if err := r.h.sendHere(c, "", target, args); err != nil {
				return err
			}
			continue
		}
		if payload == nil {
			var err error
			if payload, err = r.h.relay.encode("", nil, target, args); err != nil {
				return err
			}
		}
		if err := r.h.relay.publish(ctx, r.h.names.Connection(id), payload); err != nil {
			return err
		}
	}
	return nil
}
