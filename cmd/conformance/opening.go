package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/switchboard-hub/switchboard/hub"
)

// An opening is what is kept of the request that opened a connection.
type opening struct {
	header http.Header
	query  url.Values
	http2  bool
	local  endpointAddress
	remote endpointAddress
}

// An endpointAddress is one end of a TCP connection.
type endpointAddress struct {
	ip   string
	port int
}

type openingKey struct{}

// baseContext keeps the opening with the connection.
func baseContext(r *http.Request) context.Context {
	o := &opening{header: r.Header.Clone(), query: r.URL.Query(), http2: r.ProtoMajor == 2, remote: parseAddress(r.RemoteAddr)}
	o.header.Set("Host", r.Host) // net/http keeps it elsewhere
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		o.local = parseAddress(local.String())
	}
	return context.WithValue(context.Background(), openingKey{}, o)
}

// openingOf returns the opening of a caller's connection.
func openingOf(from *hub.Caller) *opening {
	o, ok := from.Context().Value(openingKey{}).(*opening)
	if !ok {
		return &opening{}
	}
	return o
}

// value is the named header, or nil.
func (o *opening) value(name string) *string {
	values := o.header.Values(name)
	if len(values) == 0 {
		return nil
	}
	joined := strings.Join(values, ",")
	return &joined
}

// cookie is the named cookie as it was sent, or nil.
func (o *opening) cookie(name string) *string {
	c, err := (&http.Request{Header: o.header}).Cookie(name)
	if err != nil {
		return nil
	}
	return &c.Value
}

func parseAddress(s string) endpointAddress {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return endpointAddress{}
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return endpointAddress{}
	}
	return endpointAddress{host, number}
}
