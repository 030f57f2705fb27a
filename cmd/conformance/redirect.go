package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	echoRedirectPath = "/echoredirect"
	redirectPath     = "/redirect"
)

// redirectToEcho sends the client from /echoredirect to /echo with the same
// method and body, by an address without a host.
func redirectToEcho(w http.ResponseWriter, r *http.Request) {
	location := "/echo" + r.URL.EscapedPath()[len(echoRedirectPath):]
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// A redirector answers negotiate with the address of another hub.
type redirector struct {
	tokens *tokens
	count  atomic.Int64 // over the life of the process
}

// A redirection is negotiate's answer that sends the client elsewhere.
type redirection struct {
	URL         string `json:"url"`
	AccessToken string `json:"accessToken,omitempty"`
}

// ServeHTTP sends the client to /testhub below the baseUrl it names, or with a
// token to this server's /authorizedhub if it names none.
func (d *redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var to redirection
	if base, given := queryValue(r.URL.Query(), "baseUrl"); given {
		to.URL = base + "/testhub?numRedirects=" + strconv.FormatInt(d.count.Add(1), 10)
	} else {
		token, err := d.tokens.issue(defaultName)
		if err != nil {
			writeText(w, http.StatusInternalServerError, err.Error())
			return
		}
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		to = redirection{URL: scheme + r.Host + "/authorizedhub", AccessToken: token}
	}
	body, err := json.Marshal(to)
	if err != nil {
		writeText(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may have gone
}

// queryValue is the first value of a query key, spelled in any case.
func queryValue(query map[string][]string, key string) (value string, given bool) {
	for k, values := range query {
		if strings.EqualFold(k, key) && len(values) > 0 {
			return values[0], true
		}
	}
	return "", false
}
