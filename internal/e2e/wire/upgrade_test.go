package wire

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/switchboard-hub/switchboard/hub/transport"
	"github.com/switchboard-hub/switchboard/internal/server"
)

func TestUpgradeHeaders(t *testing.T) {
	t.Parallel()
	var l ledger
	i := start(t, server.Config{}, l.watch)
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
	const version = "Sec-WebSocket-Version: 13"
	for _, tt := range []struct {
		name    string
		proto   string
		headers []string
		want    int
	}{
		{"a list, as Firefox sends it", "1.1", []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket", version, key}, 101},
		{"two Connection lines", "1.1", []string{"Connection: keep-alive", "Connection: Upgrade", "Upgrade: websocket", version, key}, 101},
		{"capitals", "1.1", []string{"Connection: UPGRADE", "Upgrade: WEBSOCKET", version, key}, 101},
		{"Upgrade: WebSocket", "1.1", []string{"Connection: upgrade", "Upgrade: WebSocket", version, key}, 101},
		{"extra spaces and tabs", "1.1", []string{"Connection:\t keep-alive ,\t Upgrade  ", "Upgrade:   websocket \t", "Sec-WebSocket-Version:  13 ", key + " "}, 101},
		{"names in lower case", "1.1", []string{"connection: Upgrade", "upgrade: websocket", strings.ToLower("Sec-WebSocket-Version") + ": 13", strings.Replace(key, "Sec-WebSocket-Key", "sec-websocket-key", 1)}, 101},
		{"a list of upgrades", "1.1", []string{"Connection: Upgrade", "Upgrade: h2c, websocket", version, key}, 101},
		{"offers of extensions and protocols", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", version, key, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", "Sec-WebSocket-Protocol: a, b"}, 101},
		{"HTTP/1.0", "1.0", []string{"Connection: Upgrade", "Upgrade: websocket", version, key}, 426},
		{"no key", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", version}, 400},
		{"a key that is too short", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", version, "Sec-WebSocket-Key: c2hvcnQ="}, 400},
		{"a key that is no base64", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", version, "Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!=="}, 400},
		{"two keys", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", version, key, key}, 400},
		{"version 8", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 8", key}, 426},
		{"no version", "1.1", []string{"Connection: Upgrade", "Upgrade: websocket", key}, 426},
		{"Connection that says something else", "1.1", []string{"Connection: keep-alive", "Upgrade: websocket", version, key}, 426},
		{"a proxy that dropped Upgrade", "1.1", []string{"Connection: close", version, key}, 426},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &peer{socket: dialTCP(t, i.Addr()), dialect: jsonDialect{}}
			answer := p.request("GET /hub HTTP/" + tt.proto + "\r\nHost: " + i.Addr() + "\r\n" + strings.Join(tt.headers, "\r\n") + "\r\n\r\n")
			if answer.StatusCode != tt.want {
				body, _ := io.ReadAll(answer.Body)
				t.Fatalf("status %d %q, want %d", answer.StatusCode, body, tt.want)
			}
			if tt.want != http.StatusSwitchingProtocols {
				if v := answer.Header.Get("Sec-WebSocket-Version"); v != "13" {
					t.Errorf("Sec-WebSocket-Version %q, want the one that is understood", v)
				}
				return
			}
			for _, unwanted := range []string{"Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"} {
				if v := answer.Header.Get(unwanted); v != "" {
					t.Errorf("%s %q, want none agreed", unwanted, v)
				}
			}
			p.write(message(opText, []byte(hello(p.dialect))))
			p.expectAgreed()
			p.works()
		})
	}
	if c, _ := l.counts(); c != 8 {
		t.Errorf("%d connections, want 8", c)
	}
	if n := i.hub().HTTPStats().Refused[transport.RefusedUpgrade]; n != 9 {
		t.Errorf("%d refused upgrades counted, want 9", n)
	}
}

// A foreign page may make its own name resolve to this machine. The Host header
// then still holds that name.
func TestHostMustBeLoopback(t *testing.T) {
	t.Parallel()
	plain := start(t, server.Config{})
	insecure := start(t, server.Config{Listen: "0.0.0.0:0", Insecure: true})
	for _, i := range []*instance{plain, insecure} {
		_, port, err := net.SplitHostPort(i.Addr())
		if err != nil {
			t.Fatal(err)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		for _, tt := range []struct {
			host string
			ok   bool
		}{
			{addr, true},
			{"127.0.0.1", true},
			{"127.9.9.9:80", true},
			{"localhost:" + port, true},
			{"LOCALHOST", true},
			{"localhost.:" + port, true},
			{"a.localhost", true},
			{"[::1]:" + port, true},
			{"[::1]", true},
			{"[::ffff:127.0.0.1]", true},
			{"evil.example", false},
			{"evil.example:" + port, false},
			{"localhost.evil.example", false},
			{"127.0.0.1.evil.example:" + port, false},
			{"evil.example.localhost.com", false},
			{"notlocalhost", false},
			{"0.0.0.0:" + port, false},
			{"192.168.0.1:" + port, false},
			{"[::]:" + port, false},
			{"2130706433", false},
			{"", false},
		} {
			for _, request := range []string{
				upgradeRequest(tt.host, hubPath),
				"POST /hub/negotiate?negotiateVersion=1 HTTP/1.1\r\nHost: " + tt.host + "\r\nContent-Length: 0\r\n\r\n",
				"GET / HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n",
				"GET /readyz HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n",
			} {
				s := dialTCP(t, addr)
				answer := s.request(request)
				if refused := answer.StatusCode == http.StatusForbidden; refused == tt.ok || answer.StatusCode >= 400 && !refused {
					t.Errorf("Host %q: %.30q got %d", tt.host, request, answer.StatusCode)
				}
				s.reset()
			}
		}
		s := dialTCP(t, addr)
		if answer := s.request(upgradeRequest("evil.example", hubPath, "X-Forwarded-Host: localhost", "Forwarded: host=localhost")); answer.StatusCode != http.StatusForbidden {
			t.Errorf("a forwarded Host was believed: status %d", answer.StatusCode)
		}
	}
}

// CORS does not cover WebSockets: whoever may connect is decided here, before
// the upgrade.
func TestOrigins(t *testing.T) {
	t.Parallel()
	own := start(t, server.Config{})
	listed := start(t, server.Config{AllowedOrigins: []string{"https://App.example/", "http://site.example:80", "http://localhost:5173"}})
	anybody := start(t, server.Config{AllowedOrigins: []string{"*"}})
	_, port, err := net.SplitHostPort(own.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		i       *instance
		host    string
		origins []string
		ok      bool
	}{
		{"none, as outside browsers", own, own.Addr(), nil, true},
		{"the same", own, own.Addr(), []string{"http://" + own.Addr()}, true},
		{"the same by another name", own, "localhost:" + port, []string{"http://localhost:" + port}, true},
		{"the same in capitals", own, "localhost:" + port, []string{"HTTP://LOCALHOST:" + port}, true},
		{"another name for this machine", own, own.Addr(), []string{"http://localhost:" + port}, false},
		{"a foreign page", own, own.Addr(), []string{"https://evil.example"}, false},
		{"a page without an origin", own, own.Addr(), []string{"null"}, false},
		{"empty", own, own.Addr(), []string{""}, false},
		{"another port", own, own.Addr(), []string{"http://127.0.0.1:1"}, false},
		{"no port", own, own.Addr(), []string{"http://127.0.0.1"}, false},
		{"another scheme", own, own.Addr(), []string{"https://" + own.Addr()}, false},
		{"more behind it", own, own.Addr(), []string{"http://" + own.Addr() + ".evil.example"}, false},
		{"a path", own, own.Addr(), []string{"http://" + own.Addr() + "/"}, false},
		{"two", own, own.Addr(), []string{"http://" + own.Addr(), "http://" + own.Addr()}, false},
		{"the same and a foreign one", own, own.Addr(), []string{"http://" + own.Addr(), "https://evil.example"}, false},
		{"on the list", listed, listed.Addr(), []string{"https://app.example"}, true},
		{"on the list with its port", listed, listed.Addr(), []string{"https://app.example:443"}, true},
		{"on the list without its port", listed, listed.Addr(), []string{"http://site.example"}, true},
		{"on the list, on this machine", listed, listed.Addr(), []string{"http://localhost:5173"}, true},
		{"the same beside a list", listed, listed.Addr(), []string{"http://" + listed.Addr()}, true},
		{"the scheme is not on the list", listed, listed.Addr(), []string{"http://app.example"}, false},
		{"a suffix of one on the list", listed, listed.Addr(), []string{"https://evil-app.example"}, false},
		{"a prefix of one on the list", listed, listed.Addr(), []string{"https://app.example.evil.com"}, false},
		{"one on the list as a path", listed, listed.Addr(), []string{"https://evil.com/app.example"}, false},
		{"one on the list as a user", listed, listed.Addr(), []string{"https://app.example@evil.com"}, false},
		{"anybody", anybody, anybody.Addr(), []string{"https://evil.example"}, true},
		{"anybody without an origin", anybody, anybody.Addr(), []string{"null"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, o := range tt.origins {
				lines = append(lines, "Origin: "+o)
			}
			s := dialTCP(t, tt.i.Addr())
			want := http.StatusForbidden
			if tt.ok {
				want = http.StatusSwitchingProtocols
			}
			if answer := s.request(upgradeRequest(tt.host, hubPath, lines...)); answer.StatusCode != want {
				t.Errorf("WebSocket: status %d, want %d", answer.StatusCode, want)
			}
			if tt.ok {
				want = http.StatusOK
			}
			s = dialTCP(t, tt.i.Addr())
			answer := s.request("POST /hub/negotiate?negotiateVersion=1 HTTP/1.1\r\n" + strings.Join(append(lines, "Host: "+tt.host, "Content-Length: 0"), "\r\n") + "\r\n\r\n")
			if answer.StatusCode != want {
				t.Errorf("negotiate: status %d, want %d", answer.StatusCode, want)
			}
			if !tt.ok && answer.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a refused origin is told that it is allowed")
			}
		})
	}
}

func TestOriginListsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{
		{"app.example"}, {"https://app.example/path"}, {"https://*.app.example"}, {"*", "https://app.example"}, {""}, {"wss://app.example"}, {"null"},
	} {
		_, err := server.New(server.Config{Listen: "127.0.0.1:0", AllowedOrigins: list})
		if _, ok := errors.AsType[*server.ConfigError](err); !ok || !strings.Contains(err.Error(), "AllowedOrigins") {
			t.Errorf("%q: %v, want a ConfigError that names the option", list, err)
		}
	}
}

func TestListeningOffLoopback(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen string
		ok     bool
	}{
		{"127.0.0.1:0", true}, {"127.1.2.3:0", true}, {"[::1]:0", true}, {"localhost:0", true}, {"", true},
		{":0", false}, {"0.0.0.0:0", false}, {"[::]:0", false}, {"192.0.2.1:0", false}, {"10.0.0.1:8080", false},
		{"[2001:db8::1]:0", false}, {"example.com:80", false}, {"localhost.example.com:80", false},
	} {
		_, err := server.New(server.Config{Listen: tt.listen})
		refusal, refused := errors.AsType[*server.ConfigError](err)
		if refused == tt.ok || err != nil && !refused {
			t.Errorf("listen %q: %v, want refused: %t", tt.listen, err, !tt.ok)
		}
		if refused && (!strings.Contains(refusal.Error(), tt.listen) || !strings.Contains(refusal.Error(), "--insecure")) {
			t.Errorf("listen %q: %q names neither the address nor the way out", tt.listen, refusal)
		}
		if _, err := server.New(server.Config{Listen: tt.listen, Insecure: true}); err != nil {
			t.Errorf("listen %q, insecure: %v", tt.listen, err)
		}
	}
	for _, listen := range []string{"8080", "127.0.0.1", "127.0.0.1:80:80"} {
		_, err := server.New(server.Config{Listen: listen})
		if _, ok := errors.AsType[*server.ConfigError](err); !ok {
			t.Errorf("listen %q: %v, want a ConfigError", listen, err)
		}
	}
}

// Without authentication the query names the user.
func TestUserOfTheQuery(t *testing.T) {
	t.Parallel()
	for _, a := range arrangements(t) {
		t.Run(a.name, func(t *testing.T) {
			sender := join(t, a.sender, jsonDialect{}, hubPath)
			for _, d := range dialects() {
				first := join(t, a.receiver, d, hubPath+"?user_id=J%C3%BCrgen%20%2B1")
				second := join(t, a.receiver, d, hubPath+"?x=1&USER_ID=J%C3%BCrgen+%2B1")
				other := join(t, a.receiver, d, hubPath+"?user_id=j%C3%BCrgen%20%2B1") // compared byte for byte
				nobody := join(t, a.receiver, d, hubPath)
				for p, user := range map[*peer]string{first: "Jürgen +1", second: "Jürgen +1", other: "jürgen +1", nobody: ""} {
					if got := p.whoAmI().UserID; got != user {
						t.Errorf("the user is %q, want %q", got, user)
					}
				}
				send := call("", "SendToUser", `["Jürgen +1","m",[1]]`)
				all := call("", "SendToAll", `["m",[2]]`)
				sender.send(send, all)
				first.expect(invocation("m", "[1]"), invocation("m", "[2]"))
				second.expect(invocation("m", "[1]"), invocation("m", "[2]"))
				other.expect(invocation("m", "[2]"))
				nobody.expect(invocation("m", "[2]"))
				for _, p := range []*peer{first, second, other, nobody} {
					p.reset()
				}
			}
		})
	}
}

// A query that names two users, in two spellings of the key, names the same one
// every time.
func TestUserNamedTwice(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	users := map[string]bool{}
	for range 30 {
		p := join(t, i, jsonDialect{}, hubPath+"?user_id=a&USER_ID=b")
		users[p.whoAmI().UserID] = true
		p.reset()
	}
	if len(users) != 1 {
		t.Errorf("one query named the users %v", users)
	}
}

func TestBadUserOfTheQuery(t *testing.T) {
	t.Parallel()
	i := start(t, server.Config{})
	for _, tt := range []struct{ name, user, want string }{
		{"too long", strings.Repeat("u", 1025), "Bad name: the user name has 1025 bytes, more than 1024"},
		{"with a line feed", "a%0Ab", "Bad name: the user name has the control character U+000A"},
		{"with a NUL", "%00", "Bad name: the user name has the control character U+0000"},
		{"not UTF-8", "%FF", "Bad name: the user name is not valid UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := dialTCP(t, i.Addr())
			answer := s.request(upgradeRequest(i.Addr(), hubPath+"?user_id="+tt.user))
			body, err := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusBadRequest || string(body) != tt.want || err != nil {
				t.Errorf("status %d %q, %v, want 400 %q", answer.StatusCode, body, err, tt.want)
			}
		})
	}
	i.empty(t, patience)
	join(t, i, jsonDialect{}, hubPath+"?user_id="+strings.Repeat("u", 1024)).works()
	join(t, i, jsonDialect{}, hubPath+"?user_id=").works()
	if n := i.hub().Stats().Users; n != 1 {
		t.Errorf("%d users, want 1: an empty name is nobody", n)
	}
}
