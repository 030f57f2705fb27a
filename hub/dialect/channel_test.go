package dialect

import (
	"regexp"
	"testing"
)

func TestChannels(t *testing.T) {
	d := DotNet{HubKey: hubKey}
	for _, c := range []struct {
		finish        string
		channel, want string
		kind          Kind
		name          string
	}{
		{"names the broadcast channel", d.All(), hubKey + ":all", All, ""},
		{"names the channel of group commands", d.GroupCommands(), hubKey + ":internal:groups", GroupCommands, ""},
		{"names a server's ack channel", d.Ack("web-1_02db"), hubKey + ":internal:ack:web-1_02db", Ack, "web-1_02db"},
		{"names a server's return channel", d.Return("web-1_02db"), hubKey + ":internal:return:web-1_02db", Return, "web-1_02db"},
		{"names a group's channel", d.Group("room-42"), hubKey + ":group:room-42", Group, "room-42"},
		{"takes a star literally", d.Group("*"), hubKey + ":group:*", Group, "*"},
		{"takes colons in names literally", d.Group("a:user:b"), hubKey + ":group:a:user:b", Group, "a:user:b"},
		{"takes an empty name literally", d.Group(""), hubKey + ":group:", Group, ""},
		{"keeps other bytes than UTF-8", d.Group("\xff\x00"), hubKey + ":group:\xff\x00", Group, "\xff\x00"},
		{"names a user's channel", d.User("alice@example.com"), hubKey + ":user:alice@example.com", User, "alice@example.com"},
		{"names a connection's channel", d.Connection("AbC"), hubKey + ":connection:AbC", Connection, "AbC"},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			if c.channel != c.want {
				t.Errorf("got %q want %q", c.channel, c.want)
			}
			kind, name, ok := d.ParseChannel(c.channel)
			if !ok || kind != c.kind || name != c.name {
				t.Errorf("parsed: got %v %q %v want %v %q", kind, name, ok, c.kind, c.name)
			}
		})
	}
}

func TestParseChannelRefuses(t *testing.T) {
	d := DotNet{HubKey: hubKey}
	for _, channel := range []string{
		"",
		hubKey,
		hubKey + ":",
		hubKey + ":All",
		hubKey + ":all:x",
		hubKey + ":group",
		hubKey + ":Group:x",
		hubKey + ":internal:groups:x",
		hubKey + ":internal:ack",
		hubKey + ":internal:x:y",
		hubKey + "2:all",
		"prefix" + hubKey + ":all",
		"Contoso.Chat.Hubs.Chathub:all",
		"__Booksleeve_MasterChanged",
		"Microsoft.AspNetCore.Components.Server.ComponentHub:all",
	} {
		if kind, name, ok := d.ParseChannel(channel); ok || kind != 0 || name != "" {
			t.Errorf("%q: got %v %q %v want none", channel, kind, name, ok)
		}
	}
}

func TestParseChannelDoesNotAllocate(t *testing.T) {
	d := DotNet{HubKey: hubKey}
	channel := d.Connection("AbCdEfGhIjKlMnOpQrStUv")
	got := testing.AllocsPerRun(100, func() {
		if _, _, ok := d.ParseChannel(channel); !ok {
			t.Error("not parsed")
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations want 0", got)
	}
}

func TestVectorChannels(t *testing.T) {
	want := map[string]map[Kind]bool{
		"ack":          {Ack: true},
		"groupCommand": {GroupCommands: true},
		"invocation":   {All: true, Group: true, User: true, Connection: true},
		"completion":   {Return: true},
	}
	for _, v := range vectors(t) {
		kind, _, ok := DotNet{hubKey}.ParseChannel(v.Channel)
		if kinds := want[v.Decoded.Kind]; !ok || kinds != nil && !kinds[kind] {
			t.Errorf("%s: %q is of kind %v", v.Name, v.Channel, kind)
		}
	}
}

func TestNewServerName(t *testing.T) {
	shape := regexp.MustCompile(`^web-1_[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$`)
	seen := map[string]bool{}
	for _, machine := range []string{"web-1", "web-1.example.com", "web-1."} {
		got := NewServerName(machine)
		if !shape.MatchString(got) || seen[got] {
			t.Errorf("%q: got %q", machine, got)
		}
		seen[got] = true
	}
}
