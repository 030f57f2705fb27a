package forward

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// maxAddress bounds an owner's address, in bytes.
const maxAddress = 255 + len("https://")

// parseAddress takes an owner's address apart. It comes from a signed token, but
// a configuration mistake is signed, too.
func parseAddress(address string) (scheme, host string, err error) {
	if len(address) > maxAddress {
		return "", "", fmt.Errorf("address of %d bytes, at most %d", len(address), maxAddress)
	}
	scheme, host = "http", address
	if before, after, ok := strings.Cut(address, "://"); ok {
		scheme, host = before, after
	}
	if scheme != "http" && scheme != "https" {
		return "", "", fmt.Errorf("address %q: neither http nor https", address)
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return "", "", fmt.Errorf("address %q: not host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", fmt.Errorf("address %q: not a port", address)
	}
	// A zone ("fe80::1%eth0") is no name of a server elsewhere.
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return !isNameByte(c) }) {
		return "", "", fmt.Errorf("address %q: not a host", address)
	}
	return scheme, host, nil
}

func isNameByte(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == ':'
}

// forwardable says what is wrong with a request that cannot be sent on.
func forwardable(r *http.Request) error {
	var why error
	switch {
	case r.Context().Value(forwardedKey{}) != nil:
		why = errors.New("forwarded already")
	case r.Method == http.MethodConnect:
		why = errors.New("CONNECT")
	case !isPath(r.RequestURI):
		why = errors.New("the request line has no path of this server")
	case !isHost(r.Host):
		why = errors.New("no Host, or one that cannot be passed on as it is")
	case isWebSocket(r) && (r.ContentLength != 0 || len(r.TransferEncoding) > 0):
		why = errors.New("an upgrade with a body")
	default:
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRequest, why)
}

// isPath reports whether a request URI is a path on this server (RFC 9112
// section 3.2.1, origin-form) that can be written again byte for byte. Two
// slashes in front would turn it into another server's URL.
func isPath(uri string) bool {
	if !strings.HasPrefix(uri, "/") || strings.HasPrefix(uri, "//") {
		return false
	}
	for i := range len(uri) {
		if uri[i] <= ' ' || uri[i] == 0x7f {
			return false
		}
	}
	return true
}

// isHost reports whether a Host goes through net/http unchanged, which escapes
// what is not ASCII and drops zones.
func isHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '/' {
			return false
		}
	}
	return host != ""
}
