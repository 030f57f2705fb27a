package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/switchboard-hub/switchboard/hub"
)

// Defaults of Config.
const (
	DefaultListen       = "127.0.0.1:8080"
	DefaultDrainTimeout = 30 * time.Second
	DefaultHubPath      = "/hub"
	DefaultHubKey       = "Switchboard.Hub"
)

// A MissingPolicy says what a start without Redis means.
type MissingPolicy string

// The policies.
const (
	// Wait: up, but not ready until Redis was reached once. The default.
	Wait MissingPolicy = "wait"

	// Fail: end with an error.
	Fail MissingPolicy = "fail"
)

// A HubPath is a hub and the path that it is served at.
type HubPath struct {
	Path string // such as "/hub"
	Key  string // the hub key, such as "Switchboard.Hub"
}

// ParseHubPath reads "path=key".
func ParseHubPath(s string) (HubPath, error) {
	path, key, found := strings.Cut(s, "=")
	switch {
	case !found || key == "":
		return HubPath{}, fmt.Errorf("%q is not path=key, such as %s=%s", s, DefaultHubPath, DefaultHubKey)
	case len(path) < 2 || path[0] != '/' || strings.HasSuffix(path, "/") || strings.ContainsAny(path, " {}?#%"):
		return HubPath{}, fmt.Errorf("%q: the path must begin with a slash, not end with one, and hold no spaces, braces, ?, # or %%", s)
	case strings.HasSuffix(path, "/negotiate"):
		return HubPath{}, fmt.Errorf("%q: a hub's path must not end in /negotiate", s)
	}
	for _, taken := range []string{"/assets", "/vendor", "/api", "/metrics", "/healthz", "/readyz", "/_admin"} {
		if path == taken || strings.HasPrefix(path, taken+"/") {
			return HubPath{}, fmt.Errorf("%q: %s is taken by the server itself", s, taken)
		}
	}
	return HubPath{Path: path, Key: key}, nil
}

// Config is everything an instance can be told. The zero value is an instance
// that is alone, on DefaultListen.
type Config struct {
	// Listen is the address to serve on; port 0 takes a free one.
	Listen string

	// Redis is the URL of the Redis that instances share; empty means that
	// this one is alone.
	Redis string

	// Backplane is used instead of Redis where it is not nil; the caller
	// runs it.
	Backplane hub.Backplane

	// Instance names this process. Empty means the host name and a UUID.
	Instance string

	// Hubs are served at their paths. Empty means DefaultHubKey at
	// DefaultHubPath.
	Hubs []HubPath

	// ChannelPrefix stands in front of every Redis channel, KeyPrefix in
	// front of every key. Empty means none and "sb:".
	ChannelPrefix string
	KeyPrefix     string

	// OnRedisMissing rules a start without Redis. Empty means Wait.
	OnRedisMissing MissingPolicy

	// Insecure allows to listen off loopback without authentication.
	Insecure bool

	// AllowedOrigins are the browsers' origins besides the same origin.
	AllowedOrigins []string

	// Advertise is the address, "host:port" or "https://host:port", under
	// which the other instances reach this one. Empty means the port of the
	// listener and its host, or, where that is every address of the machine,
	// the local address of the connection to Redis.
	Advertise string

	// DrainTimeout bounds the polite end. Zero means 30 s.
	DrainTimeout time.Duration

	// MaxConnections bounds the connections of each hub. Zero means no bound
	// but the file limit.
	MaxConnections int

	// Version is shown on the page.
	Version string

	// DemoGroups are joined by the page when it opens.
	DemoGroups []string

	// Logger receives the log; nil discards it.
	Logger *slog.Logger

	// Started is called once Run serves: nothing about Redis is known then
	// that waiting could not mend. Nil is nobody.
	Started func()

	// Tune changes the options of each hub before it is made; tests shorten
	// times with it. Nil changes nothing.
	Tune func(*hub.Options)
}

// A ConfigError is a mistake in the configuration, in words for its author.
type ConfigError struct{ text string }

func (e *ConfigError) Error() string { return e.text }

func configErrorf(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.OnRedisMissing == "" {
		c.OnRedisMissing = Wait
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Hubs) == 0 {
		c.Hubs = []HubPath{{DefaultHubPath, DefaultHubKey}}
	}
	if c.Instance == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "instance"
		}
		c.Instance = host + "-" + uuid.NewString()
	}
	for i, h := range c.Hubs {
		for _, other := range c.Hubs[:i] {
			if other.Path == h.Path || other.Key == h.Key {
				return c, configErrorf("hubs %s=%s and %s=%s share a path or a key", other.Path, other.Key, h.Path, h.Key)
			}
		}
	}
	switch c.OnRedisMissing {
	case Wait, Fail:
	default:
		return c, configErrorf("on-redis-missing is %q, not wait or fail", c.OnRedisMissing)
	}
	if c.DrainTimeout < 0 || c.MaxConnections < 0 {
		return c, configErrorf("drain-timeout and max-connections must not be negative")
	}
	if err := checkAdvertise(c.Advertise); err != nil {
		return c, err
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c, configErrorf("listen is %q, not host:port", c.Listen)
	}
	if !c.Insecure && !loopbackName(host) {
		return c, configErrorf("refusing to listen on %s without authentication: everybody who reaches it could do everything. "+
			"Listen on a loopback address, or say --insecure where only trusted peers reach the port", c.Listen)
	}
	return c, nil
}

// loopbackName reports whether a host, as in a Host header without its port,
// names this machine.
func loopbackName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// errMissing is a Redis that cannot be reached while the policy is Fail.
var errMissing = errors.New("redis cannot be reached")
