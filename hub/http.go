package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/switchboard-hub/switchboard/hub/transport"
)

// Register mounts the hub at a path of the mux, such as "/chat", together with
// its negotiate. Until Run, and after Shutdown, requests get 503.
func (h *Hub) Register(mux *http.ServeMux, path string) {
	if path = strings.TrimSuffix(path, "/"); path != "" {
		mux.Handle(path, h)
	}
	mux.Handle(path+"/{$}", h)
	mux.Handle(path+"/negotiate", h)
}

// ServeHTTP serves the hub's own path and the one for negotiate below it.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.endpoint.ServeHTTP(w, r) }

// Advertise changes Options.Advertise for the connections that are negotiated
// from now on: an address is often known only once the listener is.
func (h *Hub) Advertise(address string) error {
	if err := h.endpoint.Advertise(address); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// HTTPStats returns the counts of the hub's HTTP side: what was refused and why.
func (h *Hub) HTTPStats() transport.Stats { return h.endpoint.Stats() }

type identityKey struct{}

func (h *Hub) newEndpoint() (*transport.Endpoint, error) {
	opts := transport.Options{
		Open:                    h.open,
		Keys:                    h.keys,
		Instance:                h.opts.Instance,
		Advertise:               h.opts.Advertise,
		Transports:              h.opts.Transports,
		AllowStatefulReconnects: h.opts.AllowStatefulReconnects,
		MinimumNegotiateVersion: h.opts.MinimumNegotiateVersion,
		AllowedOrigins:          h.opts.AllowedOrigins,
		CookieCredentials:       h.opts.CookieCredentials,
		MaxConnections:          h.opts.MaxConnections,
		WebSocketCloseTimeout:   h.opts.CloseTimeout,
		DisconnectTimeout:       h.opts.DisconnectTimeout,
		PollTimeout:             h.opts.PollTimeout,
		Logger:                  h.opts.Logger,
	}
	if claimer, ok := h.opts.Backplane.(sharedClaimer); ok {
		h.claims = newFleetClaims(h, claimer)
		opts.Claims = h.claims
	}
	if h.opts.Authenticate != nil || h.opts.Authorize != nil {
		opts.Authorize = h.authorize
		opts.Subject = h.subject
	}
	if h.opts.CloseOnAuthenticationExpiration {
		opts.Refreshed = h.refreshed
	}
	e, err := transport.New(opts)
	if err != nil {
		return nil, err
	}
	e.Refuse(refusedStarting())
	return e, nil
}

// authorize names who a request acts for, and decides whether it may.
func (h *Hub) authorize(r *http.Request) (context.Context, error) {
	var id *Identity
	if h.opts.Authenticate != nil {
		var err error
		if id, err = h.opts.Authenticate(r); err != nil {
			return nil, err
		}
	}
	if h.opts.Authorize != nil {
		if err := h.opts.Authorize(id, r); err != nil {
			if status, ok := errors.AsType[*transport.StatusError](err); ok {
				return nil, status
			}
			return nil, &transport.StatusError{Code: http.StatusForbidden}
		}
	}
	if id == nil {
		return nil, nil
	}
	return context.WithValue(r.Context(), identityKey{}, id), nil
}

// subject is the user that a request acts for.
func (h *Hub) subject(r *http.Request) string {
	if id, _ := r.Context().Value(identityKey{}).(*Identity); id != nil {
		return id.UserID
	}
	return ""
}

// refreshed lets the later requests of a connection prolong its authentication.
func (h *Hub) refreshed(r *http.Request, connectionID string) error {
	id, _ := r.Context().Value(identityKey{}).(*Identity)
	if c := h.registry.conn(connectionID); c != nil {
		c.renew(id)
	}
	return nil
}

// open lets a new connection in.
func (h *Hub) open(r *http.Request, _ transport.Info) (func(transport.Conn), error) {
	id, _ := r.Context().Value(identityKey{}).(*Identity)
	if id != nil && id.UserID != "" {
		if err := validName("user", id.UserID); err != nil {
			return nil, &transport.StatusError{Code: http.StatusBadRequest, Text: err.Error()}
		}
	}
	ctx := context.Background()
	if h.opts.BaseContext != nil {
		ctx = h.opts.BaseContext(r)
	}
	return func(t transport.Conn) { h.ServeConn(ctx, t, id) }, nil
}

// retryAfter is what clients are told while an instance does not take them.
const retryAfter = time.Second

func refusedStarting() *transport.StatusError {
	return &transport.StatusError{Code: http.StatusServiceUnavailable, Text: "The server is starting", RetryAfter: retryAfter}
}

func refusedStopped() *transport.StatusError {
	return &transport.StatusError{Code: http.StatusServiceUnavailable, Text: "The server is shutting down", RetryAfter: retryAfter}
}
