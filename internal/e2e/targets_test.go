package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/internal/redistest"
)

func TestEveryTargetReachesBothProcesses(t *testing.T) {
	rs := redistest.Start(t)
	a, b := startHost(t, rs), startHost(t, rs)
	for _, p := range protocols() {
		t.Run(p.Name(), func(t *testing.T) {
			here := listen(t, client.Options{URL: a + "?user_id=alice", Protocol: protocols()[1]})
			there := listen(t, client.Options{URL: b + "?user_id=bob", Protocol: protocols()[0]})
			sender := listen(t, client.Options{URL: a, Protocol: p})
			everybody := []*listener{here, there, sender}
			for _, l := range []*listener{here, there, sender} {
				if err := l.Call(t.Context(), "Join", "g"); err != nil {
					t.Fatal(err)
				}
			}
			if err := there.Call(t.Context(), "Join", "g2"); err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				method string
				args   []any
				to     []*listener
			}{
				{"All", nil, everybody},
				{"AllExcept", []any{[]string{there.ConnectionID()}}, []*listener{here, sender}},
				{"Client", []any{there.ConnectionID()}, []*listener{there}},
				{"Client", []any{here.ConnectionID()}, []*listener{here}},
				{"Client", []any{"nobody"}, nil},
				{"Clients", []any{[]string{here.ConnectionID(), there.ConnectionID(), here.ConnectionID()}}, []*listener{here, there}},
				{"Group", []any{"g"}, everybody},
				{"Group", []any{"G"}, nil},
				{"Groups", []any{[]string{"g", "g2"}}, []*listener{here, there, there, sender}},
				{"GroupExcept", []any{"g", []string{here.ConnectionID()}}, []*listener{there, sender}},
				{"OthersInGroup", []any{"g"}, []*listener{here, there}},
				{"User", []any{"bob"}, []*listener{there}},
				{"User", []any{"Bob"}, nil},
				{"Users", []any{[]string{"alice", "bob"}}, []*listener{here, there}},
				{"Caller", nil, []*listener{sender}},
				{"Others", nil, []*listener{here, there}},
				{"Outside", []any{"g"}, everybody},
			} {
				message := fmt.Sprint(tt.method, len(tt.to))
				if err := sender.Call(t.Context(), tt.method, append(tt.args, message)...); err != nil {
					t.Fatalf("%s: %v", tt.method, err)
				}
				for _, l := range tt.to {
					l.expect(t, message)
				}
			}
			// Whatever should not have come would stand in front of this.
			if err := sender.Call(t.Context(), "All", "last"); err != nil {
				t.Fatal(err)
			}
			for _, l := range everybody {
				l.expect(t, "last")
			}
		})
	}
}

func TestRemoteGroupChangesAreFences(t *testing.T) {
	rs := redistest.Start(t)
	a, b := startHost(t, rs), startHost(t, rs)
	operator := listen(t, client.Options{URL: a})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			member := listen(t, client.Options{URL: b, Protocol: protocols()[i%2]})
			if err := member.Call(t.Context(), "Echo", "known to others from now on"); err != nil {
				t.Error(err)
				return
			}
			group := fmt.Sprint("g", i)
			for n := range 25 {
				// Nothing that was sent after it returned is missed.
				if err := operator.Call(t.Context(), "Add", member.ConnectionID(), group); err != nil {
					t.Error(err)
					return
				}
				message := fmt.Sprint(i, " ", n)
				if err := operator.Call(t.Context(), "Group", group, message); err != nil {
					t.Error(err)
					return
				}
				select {
				case s := <-member.got:
					if s != message {
						t.Errorf("received %q, want %q", s, message)
						return
					}
				case <-t.Context().Done():
					return
				}
				// Nothing that was sent after a remove arrives.
				if err := operator.Call(t.Context(), "Remove", member.ConnectionID(), group); err != nil {
					t.Error(err)
					return
				}
				if err := operator.Call(t.Context(), "Group", group, "too late"); err != nil {
					t.Error(err)
					return
				}
			}
			if err := operator.Call(t.Context(), "Client", member.ConnectionID(), "end"); err != nil {
				t.Error(err)
				return
			}
			if s := <-member.got; s != "end" {
				t.Errorf("received %q after the last remove, want only %q", s, "end")
			}
		})
	}
	all.Wait()

	err := operator.Call(t.Context(), "Add", "unknown", "g")
	if err == nil || !strings.Contains(err.Error(), "connection not found") {
		t.Errorf("adding an unknown connection: %v, want connection not found", err)
	}
	if err := operator.Call(t.Context(), "Remove", operator.ConnectionID(), "never joined"); err != nil {
		t.Errorf("removing from a group it is not in: %v", err)
	}
}

func TestOneSenderKeepsItsOrder(t *testing.T) {
	const messages = 10000
	rs := redistest.Start(t)
	a, b := startHost(t, rs), startHost(t, rs)
	members := []*listener{listen(t, client.Options{URL: a}), listen(t, client.Options{URL: b, Protocol: protocols()[1]})}
	for _, m := range members {
		if err := m.Call(t.Context(), "Join", "g"); err != nil {
			t.Fatal(err)
		}
	}
	sender := connect(t, client.Options{URL: a})
	for i := range messages {
		if err := sender.Send(t.Context(), "Group", "g", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		for i := range messages {
			m.expect(t, fmt.Sprint(i))
		}
	}
}

func TestAllMembersSeeOneOrder(t *testing.T) {
	const each = 2000
	rs := redistest.Start(t)
	hosts := []string{startHost(t, rs), startHost(t, rs)}
	var members []*listener
	for i := range 4 {
		m := listen(t, client.Options{URL: hosts[i%2], Protocol: protocols()[i/2]})
		if err := m.Call(t.Context(), "Join", "g"); err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	var senders sync.WaitGroup
	for i, host := range hosts {
		sender := connect(t, client.Options{URL: host})
		senders.Go(func() {
			for n := range each {
				if err := sender.Send(t.Context(), "Group", "g", fmt.Sprint(i, ":", n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	for range 2 * each {
		want := <-members[0].got
		for _, m := range members[1:] {
			m.expect(t, want)
		}
	}
}
