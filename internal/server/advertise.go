package server

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
)

// checkAdvertise looks at a configured address.
func checkAdvertise(address string) error {
	if address == "" {
		return nil
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://")
	host, port, err := net.SplitHostPort(rest)
	if err != nil || host == "" || port == "" || strings.ContainsAny(rest, "/?#@ ") {
		return configErrorf("advertise is %q, not host:port or https://host:port", address)
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsUnspecified() {
		return configErrorf("advertise is %q, which names no machine", address)
	}
	return nil
}

// advertised is the address under which the other instances reach this one.
func (s *Server) advertised() string {
	if s.cfg.Advertise != "" {
		return s.cfg.Advertise
	}
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		return ""
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.IsUnspecified() {
		return net.JoinHostPort(host, port)
	}
	host = "127.0.0.1" // Redis on a socket file: the others are on this machine
	if s.redis != nil {
		if local, ok := s.redis.LocalAddr().(*net.TCPAddr); ok {
			host = local.IP.String()
		}
	}
	return net.JoinHostPort(host, port)
}

// advertise tells the hubs the address. It may depend on the connection to
// Redis, so it is told again whenever that is new.
func (s *Server) advertise() {
	address := s.advertised()
	for _, h := range s.hubs {
		if err := h.Advertise(address); err != nil {
			s.cfg.Logger.Error("advertise", slog.Any("err", err))
		}
	}
}
