package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/switchboard-hub/switchboard/internal/redistest"
	"github.com/switchboard-hub/switchboard/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parsed parses a command line without running it.
func parsed(t *testing.T, args ...string) (*cli, error) {
	t.Helper()
	var c cli
	parser, err := newParser(&c, streams{&bytes.Buffer{}, &bytes.Buffer{}}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parse(parser, &c, args)
	return &c, err
}

func TestPrecedenceIsFlagEnvironmentFileDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "switchboard.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:3\ninstance: file\ndrain-timeout: 7s\nhub: [/a=A, /b=B]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SWITCHBOARD_LISTEN", "127.0.0.1:2")
	t.Setenv("SWITCHBOARD_INSTANCE", "environment")
	c, err := parsed(t, "serve", "--config", file, "--listen", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ what, got, want string }{
		{"a flag", c.Serve.Listen, "127.0.0.1:1"},
		{"the environment", c.Serve.Instance, "environment"},
		{"the file", c.Serve.DrainTimeout.String(), "7s"},
		{"a list in the file", strings.Join(c.Serve.Hub, " "), "/a=A /b=B"},
		{"the default", c.Serve.OnRedisMissing, "wait"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

func TestMistakesAreOneClearLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	noRedis := serveGarbage(t)
	locked := redistest.Start(t, redistest.TCP(), redistest.Password("right"))
	config := func(text string) string {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown flag":          {[]string{"serve", "--nonsense"}, exitUsage, "--nonsense"},
		"no command":               {nil, exitUsage, "expected one of"},
		"a bad hub":                {[]string{"serve", "--hub", "chat"}, exitUsage, "path=key"},
		"a hub at a taken path":    {[]string{"serve", "--hub", "/healthz=X"}, exitUsage, "taken"},
		"two hubs with one key":    {[]string{"serve", "--hub", "/a=X", "--hub", "/b=X"}, exitUsage, "share"},
		"a bad origin":             {[]string{"serve", "--allow-origin", "app.example/path"}, exitUsage, "app.example/path"},
		"listening off loopback":   {[]string{"serve", "--listen", "0.0.0.0:0"}, exitUsage, "without authentication"},
		"demo off loopback":        {[]string{"demo", "--listen", ":0"}, exitUsage, "without authentication"},
		"a bad address":            {[]string{"serve", "--listen", "here"}, exitUsage, "host:port"},
		"a busy port":              {[]string{"serve", "--listen", taken.Addr().String()}, exitFailed, "in use"},
		"a bad redis URL":          {[]string{"serve", "--redis", "http://x"}, exitUsage, "redis://"},
		"a Redis that is no Redis": {[]string{"serve", "--listen", "127.0.0.1:0", "--redis", "redis://" + noRedis}, exitFailed, "not a redis server"},
		"a wrong password":         {[]string{"serve", "--listen", "127.0.0.1:0", "--redis", "redis://:wrong@" + locked.Addr()}, exitFailed, "refused access"},
		"a missing Redis": {[]string{"serve", "--listen", "127.0.0.1:0", "--redis", "redis://127.0.0.1:1", "--on-redis-missing", "fail"},
			exitFailed, "cannot be reached"},
		"a missing file":              {[]string{"serve", "--config", "/does/not/exist"}, exitUsage, "no such file"},
		"an unknown key":              {[]string{"serve", "--config", config("lisden: x")}, exitUsage, "lisden"},
		"a file that is no YAML":      {[]string{"serve", "--config", config(": : :")}, exitUsage, "yaml"},
		"send to nobody":              {[]string{"send", "Message"}, exitUsage, "--group"},
		"a server that is not there":  {[]string{"send", "--all", "--server", "http://127.0.0.1:1", "Message"}, exitFailed, "refused"},
		"a server with a strange URL": {[]string{"tail", "--server", "gopher://x", "g"}, exitUsage, "gopher"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(tt.args, streams{&out, &errs})
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			text := errs.String()
			if !strings.Contains(text, tt.says) {
				t.Errorf("says %q, want %q in it", text, tt.says)
			}
			if strings.Count(text, "\n") != 1 || strings.Contains(text, "wrong@") {
				t.Errorf("says %q, want one line without secrets", text)
			}
		})
	}
}

// serveGarbage answers everything like a web server.
func serveGarbage(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(5 * time.Second))
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"version"}} {
		var out, errs bytes.Buffer
		if code := run(args, streams{&out, &errs}); code != exitClean || out.Len() == 0 || errs.Len() != 0 {
			t.Errorf("%v: exit code %d, %d bytes, errors %q", args, code, out.Len(), errs.String())
		}
	}
}

// The flags in the Compose file are those of this program.
func TestComposeFileUsesOurFlags(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image   string
			Build   string
			Command []string
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	instances := 0
	for name, service := range file.Services {
		if service.Build == "" {
			continue
		}
		instances++
		c, err := parsed(t, service.Command...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg, err := c.Serve.config(&bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := server.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cfg.Redis == "" || cfg.Instance != name {
			t.Errorf("%s: redis %q, instance %q", name, cfg.Redis, cfg.Instance)
		}
	}
	if instances != 3 {
		t.Errorf("%d instances, want 3", instances)
	}
	balancer, err := os.ReadFile(filepath.Join("..", "..", "deploy", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*(cookie|stick)\b`).Match(balancer) {
		t.Error("the balancer is sticky")
	}
}
