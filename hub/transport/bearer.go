package transport

import (
	"net/http"
	"strings"
)

// BearerToken is the access token of a request, or empty: what follows "Bearer "
// in the Authorization header (RFC 6750 section 2.1), or, where there is no such
// header, the query value access_token, where browsers put it for WebSockets and
// event streams. Clients send it with every request of a connection, negotiate
// included. An Authorization of another scheme is no token, whatever the query
// says.
func BearerToken(r *http.Request) string {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(token)
	}
	token, _ := queryValue(r, "access_token")
	return token
}
