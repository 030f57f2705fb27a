package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/client"
	"github.com/switchboard-hub/switchboard/internal/redistest"
	"github.com/switchboard-hub/switchboard/internal/server"
)

// awkwardNames look like channels, patterns, hash tags or something of ours.
func awkwardNames() []string {
	return []string{
		"all", "group:x", "x", "user:x", "x.user.y", "{a}", "a", "*", "g?", "gg", "[ab]", "b", "internal:groups", "internal:ack:x",
		"connection:x", ":", "..", "ü", "U", "u",
	}
}

func TestOneNameForSeveralThingsMeansTheAddressedOne(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, instances int) {
		here, there := startEnds(t, instances, nodeConfig{})
		somebody := connect(t, client.Options{URL: here.url})
		if err := somebody.Call(t.Context(), "Echo", "known to others from now on"); err != nil {
			t.Fatal(err)
		}
		// A group and a user are also named like a connection.
		names := append(awkwardNames(), somebody.ConnectionID())
		type receiver struct {
			*peer
			want string
		}
		var receivers []receiver
		for i, name := range names {
			member := mustOpen(t, there.url, protocolOf(i))
			if err := member.call("Join", name); err != nil {
				t.Fatal(err)
			}
			u := mustOpen(t, there.url+"?user_id="+url.QueryEscape(name), protocolOf(i+1))
			if err := u.call("Echo", "known to others from now on"); err != nil {
				t.Fatal(err)
			}
			receivers = append(receivers, receiver{member, "group " + name}, receiver{u, "user " + name})
		}
		target := make(chan string, 10)
		somebody.On("m", func(args client.Args) {
			s, err := client.Arg[string](args, 0)
			if err != nil {
				t.Error(err)
			}
			target <- s
		})
		from := here.Clients()
		for _, name := range names {
			err := errors.Join(
				from.Group(name).Send(t.Context(), "m", "group "+name),
				from.User(name).Send(t.Context(), "m", "user "+name),
				from.Client(name).Send(t.Context(), "m", "connection "+name),
			)
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := from.All().Send(t.Context(), "m", "end"); err != nil {
			t.Fatal(err)
		}
		for _, r := range receivers {
			if err := r.expect(r.want, "end"); err != nil {
				t.Errorf("%s: %v", r.want, err)
			}
		}
		for _, want := range []string{"connection " + somebody.ConnectionID(), "end"} {
			if got := <-target; got != want {
				t.Errorf("the connection received %q, want %q", got, want)
			}
		}
	})
}

// collect puts a client of the built-in methods into a group and collects what it
// receives as "m".
func collect(t testing.TB, url, group string) (*client.Client, <-chan string) {
	t.Helper()
	got := make(chan string, 100)
	c := connectWith(t, client.Options{URL: url}, func(c *client.Client) {
		c.On("m", func(args client.Args) {
			s, err := client.Arg[string](args, 0)
			if err != nil {
				t.Error(err)
			}
			got <- s
		})
	})
	if err := c.Call(t.Context(), "JoinGroup", group); err != nil {
		t.Fatal(err)
	}
	return c, got
}

// sendEverywhere has a client of the built-in methods send to a group, a user
// and everybody.
func sendEverywhere(t testing.TB, c *client.Client, group, user, from string) {
	t.Helper()
	for _, call := range []struct {
		method string
		args   []any
	}{
		{"SendToGroup", []any{group, "m", []string{"group from " + from}}},
		{"SendToUser", []any{user, "m", []string{"user from " + from}}},
		{"SendToAll", []any{"m", []string{"all from " + from}}},
	} {
		if err := c.Call(t.Context(), call.method, call.args...); err != nil {
			t.Fatal(err)
		}
	}
}

// expectOwn fails the test unless exactly the three messages from its own kind
// arrive.
func expectOwn(t testing.TB, got <-chan string, own string) {
	t.Helper()
	for _, kind := range []string{"group", "user", "all"} {
		if s, want := <-got, kind+" from "+own; s != want {
			t.Errorf("received %q, want %q", s, want)
		}
	}
	if len(got) > 0 {
		t.Errorf("received %q too", <-got)
	}
}

func TestTwoHubsOfOneProcessShareNothing(t *testing.T) {
	rs := redistest.Start(t)
	cfg := server.Config{Redis: rs.URL(), Hubs: []server.HubPath{{Path: "/one", Key: "Hub"}, {Path: "/two", Key: "Hub2"}}}
	a, b := startInstance(t, cfg), startInstance(t, cfg)
	address := func(i instance, path string) string { return "http://" + i.Addr() + path + "?user_id=u" }
	one, gotOne := collect(t, address(a, "/one"), "g")
	two, gotTwo := collect(t, address(a, "/two"), "g")
	_, gotOneB := collect(t, address(b, "/one"), "g")
	_, gotTwoB := collect(t, address(b, "/two"), "g")
	sendEverywhere(t, one, "g", "u", "one")
	sendEverywhere(t, two, "g", "u", "two")
	expectOwn(t, gotTwo, "two")
	expectOwn(t, gotTwoB, "two")
	expectOwn(t, gotOne, "one")
	expectOwn(t, gotOneB, "one")
}

// monitor reports every command that Redis runs, until the test ends.
func monitor(t testing.TB, rs *redistest.Server) <-chan string {
	t.Helper()
	conn, err := net.Dial(rs.Network(), rs.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10000)
	var reading errgroup.Group
	reading.Go(func() error {
		defer close(lines)
		in := bufio.NewScanner(conn)
		for in.Scan() {
			lines <- in.Text()
		}
		return nil
	})
	t.Cleanup(func() {
		conn.Close()
		reading.Wait()
	})
	if line := <-lines; line != "+OK" {
		t.Fatalf("MONITOR answered %q", line)
	}
	return lines
}

func TestTwoFleetsOnOneRedisShareNothing(t *testing.T) {
	rs := redistest.Start(t)
	commands := monitor(t, rs)
	fleet := func(prefix string) (c *client.Client, got []<-chan string) {
		for range 2 {
			i := startInstance(t, server.Config{Redis: rs.URL(), ChannelPrefix: prefix, KeyPrefix: prefix + ":"})
			var messages <-chan string
			c, messages = collect(t, i.URL()+"?user_id=u", "g")
			got = append(got, messages)
		}
		return c, got
	}
	p, gotP := fleet("p")
	p2, gotP2 := fleet("p2")
	sendEverywhere(t, p, "g", "u", "p")
	sendEverywhere(t, p2, "g", "u", "p2")
	for i := range gotP {
		expectOwn(t, gotP[i], "p")
		expectOwn(t, gotP2[i], "p2")
	}
	// The end of one fleet's members takes nothing from the other.
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	sendEverywhere(t, p2, "g", "u", "p2")
	for _, got := range gotP2 {
		expectOwn(t, got, "p2")
	}
	expectPrefixes(t, rs, commands)
}

// expectPrefixes fails the test unless every channel and key that was used
// carries the prefix of one of the fleets.
func expectPrefixes(t *testing.T, rs *redistest.Server, commands <-chan string) {
	t.Helper()
	rs.Do("ECHO", "that was all")
	word := regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	channel := regexp.MustCompile(`^p2?` + regexp.QuoteMeta(server.DefaultHubKey) + `:`)
	key := regexp.MustCompile(`^p2?:`)
	seen := map[string]int{}
	for line := range commands {
		var words []string
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			words = append(words, m[1])
		}
		if len(words) == 0 {
			continue
		}
		var names []string
		form := channel
		switch command := strings.ToUpper(words[0]); command {
		case "ECHO":
			if seen["PUBLISH"] < 9 || seen["SUBSCRIBE"] < 4*4 || seen["key"] == 0 {
				t.Errorf("too little was seen: %v", seen)
			}
			return
		case "PUBLISH":
			names = words[1:2]
		case "SUBSCRIBE", "UNSUBSCRIBE":
			names = words[1:]
		case "PUBSUB":
			names = words[2:]
		case "HELLO", "CLIENT", "PING", "SELECT", "COMMAND", "TIME", "MULTI", "EXEC", "EVAL", "EVALSHA", "SCRIPT":
			continue
		default:
			names, form = words[1:2], key
			seen["key"]++
		}
		for _, name := range names {
			seen[strings.ToUpper(words[0])]++
			if !form.MatchString(name) {
				t.Errorf("a name without its prefix: %s", line)
			}
		}
	}
	t.Error(fmt.Errorf("MONITOR ended: %w", net.ErrClosed))
}
