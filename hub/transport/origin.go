package transport

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// preflightAge is for how long a browser may remember a preflight's answer, in
// seconds.
const preflightAge = "600"

// originList is Options.AllowedOrigins in canonical form.
type originList struct {
	any     bool
	allowed []string
}

// parseOrigins checks the configured origins and writes them as browsers do.
func parseOrigins(entries []string) (originList, error) {
	var list originList
	for _, entry := range entries {
		if entry == "*" {
			list.any = true
			continue
		}
		origin, err := canonicalOrigin(strings.TrimSuffix(entry, "/"))
		if err != nil {
			return originList{}, fmt.Errorf("transport: Options.AllowedOrigins: %q: %w", entry, err)
		}
		list.allowed = append(list.allowed, origin)
	}
	if list.any && len(list.allowed) > 0 {
		return originList{}, errors.New(`transport: Options.AllowedOrigins: "*" leaves nothing for further entries to allow`)
	}
	return list, nil
}

// canonicalOrigin writes an origin as browsers do (RFC 6454 section 6.2): lower
// case, without the scheme's default port, and nothing behind.
func canonicalOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("not a URL")
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	switch {
	case scheme == "" || host == "":
		return "", errors.New(`an origin is scheme and host, such as "https://app.example"`)
	case scheme == "ws" || scheme == "wss":
		return "", errors.New("an origin is that of the page: http or https")
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "", errors.New("an origin has no user, path, query or fragment")
	case strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "["):
		return "", errors.New("an IPv6 address stands in brackets")
	case strings.ContainsFunc(host, func(c rune) bool { return c > 0x7e || c == '*' || c == '%' }):
		return "", errors.New("the host must be plain ASCII (xn--…) without wildcards")
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return scheme + "://" + host, nil
	}
	return scheme + "://" + host + ":" + port, nil
}

// admitOrigin deals with everything about a request's origin, before anything
// else is looked at: foreign pages are refused and preflights answered, both
// by returning false. CORS does not cover WebSockets, hence the check on every
// request.
func (e *Endpoint) admitOrigin(w http.ResponseWriter, r *http.Request, negotiate bool) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	sent := r.Header["Origin"]
	if len(sent) == 0 {
		if !e.opts.CookieCredentials || !onlyCookies(r) {
			return true
		}
		e.warn(r, "transport: WebSocket with a cookie and without Origin refused: let the proxy pass Origin")
		e.refuse(w, r, RefusedOrigin, &StatusError{Code: http.StatusForbidden, Text: "Origin missing"})
		return false
	}
	listed, ok := e.allows(r, sent)
	if !ok {
		e.warn(r, "transport: request from a foreign origin refused: allow it, or let the proxy pass Host and X-Forwarded-Proto")
		e.refuse(w, r, RefusedOrigin, &StatusError{Code: http.StatusForbidden, Text: "Origin not allowed"})
		return false
	}
	// A middleware in front may have its own policy: what it set, stays.
	if listed && h.Get("Access-Control-Allow-Origin") == "" {
		if e.origins.any {
			h.Set("Access-Control-Allow-Origin", "*")
		} else {
			h.Set("Access-Control-Allow-Origin", sent[0])
			h.Set("Access-Control-Allow-Credentials", "true")
		}
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	if listed {
		h.Set("Access-Control-Allow-Methods", allowedMethods(negotiate))
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
			h.Add("Vary", "Access-Control-Request-Headers")
		}
		h.Set("Access-Control-Max-Age", preflightAge)
	}
	w.WriteHeader(http.StatusNoContent)
	return false
}

// onlyCookies reports whether a WebSocket's one credential is a cookie.
func onlyCookies(r *http.Request) bool {
	if requestedKind(r) != WebSockets || len(r.Header["Cookie"]) == 0 || len(r.Header["Authorization"]) > 0 {
		return false
	}
	_, token := queryValue(r, "access_token")
	return !token
}

// allows reports whether a request's Origin headers pass, and whether they do
// because they are listed and not the request's own.
func (e *Endpoint) allows(r *http.Request, sent []string) (listed, ok bool) {
	if len(sent) != 1 {
		return false, false
	}
	if e.origins.any {
		return true, true
	}
	origin, err := canonicalOrigin(sent[0])
	if err != nil { // "null" among them
		return false, false
	}
	if slices.Contains(e.origins.allowed, origin) {
		return true, true
	}
	own, err := canonicalOrigin(requestScheme(r) + "://" + r.Host)
	return false, err == nil && own == origin
}

// requestScheme is the scheme of the URL that the client used. X-Forwarded-Proto
// may be believed here, whoever sent it: the origin check protects users of
// browsers, and no page can set that header across origins.
func requestScheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	forwarded, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	if strings.EqualFold(strings.TrimSpace(forwarded), "https") {
		return "https"
	}
	return "http"
}
