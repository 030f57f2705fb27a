// Command host serves the hub that load generators expect: Echo, Join and
// SendGroup, on the public library and nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/switchboard-hub/switchboard/backplane"
	"github.com/switchboard-hub/switchboard/hub"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5000", "address")
	redis := flag.String("redis", "", "Redis of several hosts, host:port or URL; none: alone")
	path := flag.String("path", "/hub", "path of the hub")
	target := flag.String("target", "m", "client method that SendGroup calls")
	flag.Parse()
	if err := run(*listen, *redis, *path, *target); err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		os.Exit(1)
	}
}

func run(listen, redis, path, target string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	opts := hub.Options{Name: "Bench.Hub", Logger: log, AllowedOrigins: []string{"*"}}
	var running sync.WaitGroup
	if redis != "" {
		url := redis
		if url[0] != 'r' && url[0] != 'u' {
			url = "redis://" + url
		}
		bp, err := backplane.New(backplane.Options{URL: url, Logger: log})
		if err != nil {
			return err
		}
		backplane.RouteLogs(log)
		running.Go(func() {
			if err := bp.Run(ctx); err != nil {
				log.Error("backplane", slog.Any("err", err))
			}
		})
		opts.Backplane = bp
	}
	h, err := hub.New(opts)
	if err != nil {
		return err
	}
	h.Handle("Echo", hub.Func1(func(_ context.Context, _ *hub.Caller, s string) (string, error) { return s, nil }))
	h.Handle("Join", hub.Action1(func(ctx context.Context, c *hub.Caller, group string) error { return c.AddToGroup(ctx, group) }))
	h.Handle("SendGroup", hub.Action2(func(ctx context.Context, c *hub.Caller, group, payload string) error {
		return c.Clients().Group(group).Send(ctx, target, payload)
	}))
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			log.Error("hub", slog.Any("err", err))
		}
	})

	mux := http.NewServeMux()
	h.Register(mux, path)
	mux.HandleFunc("/goroutines", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, runtime.NumGoroutine()) })
	mux.Handle("/debug/pprof/", http.DefaultServeMux)
	srv := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	running.Go(func() {
		<-ctx.Done()
		srv.Close()
	})
	<-h.Ready()
	err = srv.ListenAndServe()
	stop()
	running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
