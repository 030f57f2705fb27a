package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/hub/protocol"
	"github.com/switchboard-hub/switchboard/hub/transport"
)

// Paths of what is no hub, in lower case.
const (
	tokenPath        = "/generatejwttoken"
	clientResultPath = "/clientresult/"
	badNegotiatePath = "/bad-negotiate"
)

// A host is all hubs and endpoints, and the way to them.
type host struct {
	cfg      config
	tokens   *tokens
	redirect *redirector
	static   *staticFiles
	echo     *rawEcho
	hubs     []*hub.Hub
	ask      http.HandlerFunc        // for the result of a client
	routes   map[string]http.Handler // by path in lower case
	cookies  map[string]bool         // paths whose negotiate sets one more cookie
}

func newHost(cfg config) (*host, error) {
	h := &host{cfg: cfg, tokens: newTokens(), routes: map[string]http.Handler{}, cookies: map[string]bool{}}
	h.redirect = &redirector{tokens: h.tokens}
	if cfg.static != "" {
		root, err := os.OpenRoot(cfg.static)
		if err != nil {
			return nil, fmt.Errorf("static: %w", err)
		}
		h.static = &staticFiles{root}
	}
	if err := h.mountAll(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// mountAll makes every hub and endpoint.
func (h *host) mountAll() error {
	var err error
	if h.echo, err = newRawEcho(h.cfg.log); err != nil {
		return err
	}
	h.mount("/echo", h.echo.endpoint)

	noWebSockets := []transport.Kind{transport.ServerSentEvents, transport.LongPolling}
	for _, m := range []struct {
		path     string
		opts     hub.Options
		register func(*hub.Hub)
		second   bool // of the second client family
	}{
		{"/testhub", hub.Options{}, h.registerAskedHub, false},
		{"/testhub-nowebsockets", hub.Options{Transports: noWebSockets}, registerTestHub, false},
		{"/uncreatable", hub.Options{}, h.registerUncreatable, false},
		{"/authorizedhub", hub.Options{Authenticate: h.tokens.authenticate}, registerEcho, false},
		{"/authorizedhub2", hub.Options{Authenticate: h.tokens.authenticate}, registerEcho, true},
		{"/default", hub.Options{Authenticate: h.tokens.recognize, AllowStatefulReconnects: true}, registerTestHubB, true},
		{"/dynamic", hub.Options{Authenticate: h.tokens.recognize}, registerTestHubB, true},
		{"/hubt", hub.Options{Authenticate: h.tokens.recognize}, registerTestHubB, true},
		{"/default-nowebsockets", hub.Options{Authenticate: h.tokens.recognize, Transports: noWebSockets}, registerTestHubB, true},
		{"/negotiateprotocolversion12", hub.Options{MinimumNegotiateVersion: 12}, registerTestHubB, true},
		{"/negotiateprotocolversionnegative", hub.Options{MinimumNegotiateVersion: -1}, registerTestHubB, true},
		{"/version", hub.Options{Protocols: []protocol.Protocol{lenientJSON{}}}, registerVersionHub, true},
	} {
		m.opts.Name = "Conformance" + m.path
		m.opts.Logger = h.cfg.log
		m.opts.BaseContext = baseContext
		m.opts.AllowedOrigins = []string{"*"} // with credentials: see allowOrigin
		m.opts.EnableDetailedErrors = true
		made, err := hub.New(m.opts)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		m.register(made)
		h.hubs = append(h.hubs, made)
		h.mount(m.path, made)
		h.cookies[m.path+"/negotiate"] = m.second
	}
	return nil
}

func (h *host) mount(path string, handler http.Handler) {
	h.routes[path] = handler
	h.routes[path+"/negotiate"] = handler
}

// registerAskedHub makes the hub whose clients are asked for results.
func (h *host) registerAskedHub(to *hub.Hub) {
	registerTestHub(to)
	h.ask = clientResult(to, clientResultPath)
}

func registerEcho(h *hub.Hub) { h.Handle("Echo", hub.Func1(echo[*string])) }

// ServeHTTP is the middleware, in the order that clients rely on, and then the
// hub or endpoint of the path, which is matched without regard to case.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	allowOrigin(w.Header(), r)
	path := strings.ToLower(r.URL.Path)
	switch {
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
		return
	case h.static.serve(w, r):
		return
	case strings.HasPrefix(path, echoRedirectPath):
		redirectToEcho(w, r)
		return
	case strings.HasPrefix(path, redirectPath):
		h.redirect.ServeHTTP(w, r)
		return
	}
	path = strings.TrimSuffix(path, "/")
	if strings.Contains(path, "/negotiate") {
		var more []*http.Cookie
		if h.cookies[path] {
			more = append(more, &http.Cookie{Name: "fromNegotiate", Value: url.PathEscape("a value")})
		}
		setCookies(w, r, more...)
	}
	switch {
	case strings.HasPrefix(path, badNegotiatePath):
		writeText(w, http.StatusBadRequest, "Some response from server")
	case path == tokenPath || strings.HasPrefix(path, tokenPath+"/"):
		h.tokens.issueHandler(tokenPath)(w, r)
	case strings.HasPrefix(path, clientResultPath):
		h.ask(w, r)
	case h.routes[path] != nil:
		h.routes[path].ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// run runs every hub until ctx ends.
func (h *host) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, each := range h.hubs {
		g.Go(func() error { return each.Run(ctx) })
	}
	return g.Wait()
}

// awaitReady returns when every hub takes connections, or ctx ends.
func (h *host) awaitReady(ctx context.Context) {
	for _, each := range h.hubs {
		select {
		case <-each.Ready():
		case <-ctx.Done():
			return
		}
	}
}

// drain tells every client that the host ends and waits for them, but not for
// longer than limit.
func (h *host) drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var leaving sync.WaitGroup
	for _, each := range h.hubs {
		leaving.Go(func() {
			if err := each.Shutdown(ctx); err != nil {
				h.cfg.log.Warn("clients did not leave in time", "hub", each.Name(), "err", err)
			}
		})
	}
	conns := h.echo.shut()
	for _, c := range conns {
		leaving.Go(func() { _ = c.close(transport.StatusGoingAway) }) // it may be gone already
	}
	leaving.Wait()
	if err := h.echo.endpoint.Wait(ctx); err != nil {
		for _, c := range conns {
			c.CloseNow()
		}
		_ = h.echo.endpoint.Wait(context.Background()) // cannot fail
	}
}

// close gives back what newHost has opened.
func (h *host) close() {
	if h.static != nil {
		h.static.root.Close()
	}
}
