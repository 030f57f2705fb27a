package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/hub"
)

// A Server is one instance.
type Server struct {
	cfg     Config
	redis   *backplane.Redis // nil when alone or given a backplane
	hubs    []*hub.Hub
	handler http.Handler

	listener net.Listener
	draining atomic.Bool
}

// New makes an instance. Mistakes in the configuration are *ConfigError.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With(slog.String("instance", cfg.Instance))
	s := &Server{cfg: cfg}
	bp := cfg.Backplane
	if bp == nil && cfg.Redis != "" {
		s.redis, err = backplane.New(backplane.Options{
			URL: cfg.Redis, ChannelPrefix: cfg.ChannelPrefix, KeyPrefix: cfg.KeyPrefix, Logger: cfg.Logger,
			ClientName: "switchboard",
		})
		if err != nil {
			return nil, configErrorf("redis: %v", err)
		}
		bp = s.redis
	}
	for _, path := range cfg.Hubs {
		opts := hub.Options{
			Name: path.Key, Instance: cfg.Instance, Logger: cfg.Logger, Backplane: bp,
			Authenticate: identify, AllowedOrigins: cfg.AllowedOrigins, MaxConnections: cfg.MaxConnections,
			AllowStatefulReconnects: true,
		}
		if cfg.Tune != nil {
			cfg.Tune(&opts)
		}
		h, err := hub.New(opts)
		if err != nil {
			return nil, configErrorf("hub %s: %v", path.Path, err)
		}
		builtin{h}.register()
		s.hubs = append(s.hubs, h)
	}
	s.handler = s.routes()
	return s, nil
}

// Hub returns the hub with that key, or nil.
func (s *Server) Hub(key string) *hub.Hub {
	for _, h := range s.hubs {
		if h.Name() == key {
			return h
		}
	}
	return nil
}

// Instance is the name of the instance.
func (s *Server) Instance() string { return s.cfg.Instance }

// Paths returns the paths of the hubs.
func (s *Server) Paths() []string {
	paths := make([]string, len(s.cfg.Hubs))
	for i, h := range s.cfg.Hubs {
		paths[i] = h.Path
	}
	return paths
}

// Listen takes the address, so that Addr is known and a busy port is an error
// before anything starts.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.listener = l
	return nil
}

// Addr is the address that Listen took.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// HTTP server limits: a peer that sends its request slowly, or headers without
// end, is gone before it costs anything.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Run serves until ctx ends, and then ends everything at once; for a polite
// end call Drain first. It returns an error when the listener or the backplane
// fails for good.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	if err := s.firstContact(ctx); err != nil {
		s.listener.Close()
		return err
	}
	s.advertise()
	if s.redis != nil {
		s.redis.OnLink(func(backplane.Link) { s.advertise() })
	}
	if s.cfg.Started != nil {
		s.cfg.Started()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	bpCtx, stopBackplane := context.WithCancel(context.WithoutCancel(ctx))
	var carrying sync.WaitGroup
	if s.redis != nil {
		carrying.Go(func() {
			if err := s.redis.Run(bpCtx); err != nil && bpCtx.Err() == nil {
				cancel(fmt.Errorf("redis: %w", err))
			}
		})
	}
	for _, h := range s.hubs {
		part("hub "+h.Name(), h.Run)
	}
	part("redis", s.watchFirstContact)
	part("http", s.serveHTTP)
	running.Wait()
	stopBackplane()
	carrying.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// serveHTTP answers requests until ctx ends.
func (s *Server) serveHTTP(ctx context.Context) error {
	return Serve(ctx, s.listener, s.handler, s.cfg.Logger)
}

// Serve answers HTTP requests on l, with the limits that every listener of ours
// has, until ctx ends; then it closes l and all connections that have not been
// taken over.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		srv.Close()
	})
	err := srv.Serve(l)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain is the polite end: not ready any more, no new connections, and every
// client is told that it may reconnect elsewhere. It returns when all have
// gone, or ctx's error when that took too long.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	var errs []error
	var leaving sync.WaitGroup
	var mu sync.Mutex
	for _, h := range s.hubs {
		leaving.Go(func() {
			if err := h.Shutdown(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	leaving.Wait()
	return errors.Join(errs...)
}

// started reports whether every hub hears the other instances.
func (s *Server) started() bool {
	for _, h := range s.hubs {
		select {
		case <-h.Ready():
		default:
			return false
		}
	}
	return true
}

// degraded reports whether the other instances cannot be reached now.
func (s *Server) degraded() bool { return s.redis != nil && !s.redis.Linked() }
