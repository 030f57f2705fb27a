package forward

import (
	"net/http"
	"slices"
	"strings"
)

// header carries the signature; see the package comment. It is in canonical
// form, so that it can be an index of http.Header.
const header = "X-Switchboard-Forward"

// hopByHop are the headers that concern one connection (RFC 9110 section
// 7.6.1, RFC 2616 section 13.5.1). Expect is among them because the server has
// answered it: it says "100 Continue" when the body is first read.
func hopByHop() []string {
	return []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
	}
}

// endToEnd returns a copy of h without the headers that concern one connection:
// the known ones, and those that Connection names.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	if out == nil {
		out = http.Header{}
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop() {
		delete(out, name)
	}
	return out
}

// outgoing are the headers of the request to the owner.
func outgoing(r *http.Request) http.Header {
	out := endToEnd(r.Header)
	delete(out, header)
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // or net/http makes one up
	}
	return out
}

// merge puts an answer's headers in the place of those that are there already.
// Both instances run the same code in front, so most names are there twice with
// the same value, and some of them (CORS) must not be sent twice.
func merge(to, from http.Header) {
	for name, values := range from {
		if name != "Vary" && name != "Set-Cookie" {
			to[name] = values
			continue
		}
		for _, value := range values {
			if !slices.Contains(to[name], value) {
				to[name] = append(to[name], value)
			}
		}
	}
}

// hasToken reports whether a header that is a list has the token in it.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h[name] {
		for item := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// isWebSocket reports whether a request asks for a WebSocket (RFC 6455 section
// 4.1).
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor >= 1 &&
		hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// clientScheme is the scheme of the URL that the client used, as far as this
// instance can know.
func clientScheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if strings.EqualFold(strings.TrimSpace(first), "https") {
		return "https"
	}
	return "http"
}
