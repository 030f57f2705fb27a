package demo

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// A Balancer passes every request to the next of its targets, whoever asks.
// Upgrades take turns of their own: a client makes two requests to connect, and
// with one count for both and two targets it would always land on the same one.
type Balancer struct {
	requests, upgrades atomic.Uint64
	proxies            []*httputil.ReverseProxy
}

// NewBalancer returns a balancer for servers at the given host:port addresses,
// of which there must be at least one.
func NewBalancer(log *slog.Logger, targets ...string) *Balancer {
	b := &Balancer{}
	for _, target := range targets {
		to := &url.URL{Scheme: "http", Host: target}
		b.proxies = append(b.proxies, &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.SetXForwarded()
				r.Out.Host = r.In.Host // the origin check compares with it
			},
			FlushInterval: -1,
			ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		})
	}
	return b
}

func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	turns := &b.requests
	if r.Header.Get("Upgrade") != "" {
		turns = &b.upgrades
	}
	b.proxies[turns.Add(1)%uint64(len(b.proxies))].ServeHTTP(w, r)
}
