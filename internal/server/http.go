package server

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/switchboard-hub/switchboard/hub"
	"github.com/switchboard-hub/switchboard/web/ui"
)

// Handler serves everything of this instance.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	paths := make([]string, 0, len(s.cfg.Hubs))
	for i, h := range s.hubs {
		h.Register(mux, s.cfg.Hubs[i].Path)
		paths = append(paths, s.cfg.Hubs[i].Path)
	}
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.readiness)
	mux.Handle("/", ui.Handler(ui.Options{Hubs: paths, Version: s.cfg.Version, DemoGroups: s.cfg.DemoGroups}))
	return loopbackHostsOnly(mux)
}

// loopbackHostsOnly refuses requests for hosts that are not loopback names: a
// foreign page whose name was made to resolve to this machine passes a
// same-origin check, but not this one.
func loopbackHostsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !loopbackName(host) {
			http.Error(w, "Host must be a loopback name, such as localhost, on a server without authentication", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// identify names the user of a request on a server without authentication:
// whoever it says it is, allowed everything.
func identify(r *http.Request) (*hub.Identity, error) {
	id := &hub.Identity{Permissions: everything()}
	query := r.URL.Query()
	for _, key := range slices.Sorted(maps.Keys(query)) { // of several spellings always the same one
		if strings.EqualFold(key, "user_id") {
			id.UserID = query[key][0]
		}
	}
	return id, nil
}

func everything() []string { return []string{"*"} }

// A status is the body of the health and readiness answers.
type status struct {
	Status   string `json:"status"`
	Instance string `json:"instance"`
	Degraded bool   `json:"degraded"`
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeStatus(w, http.StatusOK, status{Status: "alive", Instance: s.cfg.Instance, Degraded: s.degraded()})
}

// readiness is 200 from the moment that this instance hears the others until
// it drains. A Redis that goes away later does not change it: it would take all
// instances out of the load balancer at once.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	st := status{Status: "ready", Instance: s.cfg.Instance, Degraded: s.degraded()}
	code := http.StatusOK
	switch {
	case s.draining.Load():
		st.Status, code = "draining", http.StatusServiceUnavailable
	case !s.started():
		st.Status, code = "starting", http.StatusServiceUnavailable
	}
	writeStatus(w, code, st)
}

func writeStatus(w http.ResponseWriter, code int, st status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(st) // the client may have gone
}
