package transport

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxNegotiateVersion is the newest version of negotiate there is
// (TransportProtocols.md, "POST [endpoint-base]/negotiate request").
const maxNegotiateVersion = 1

// negotiate gives a client its connection id and token. Nothing is kept: all
// that another request needs to know stands in the token, so that negotiations
// that lead nowhere cost no memory.
func (e *Endpoint) negotiate(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", allowedMethods(true))
		e.refuse(w, r, RefusedMethod, &StatusError{Code: http.StatusMethodNotAllowed})
		return
	}
	if unavailable := e.available(); unavailable != nil {
		e.refuse(w, r, RefusedUnavailable, unavailable)
		return
	}
	version, problem := e.negotiateVersion(r)
	if problem != "" {
		e.refused[RefusedVersion].Add(1)
		writeJSON(w, append(appendMember(nil, "{", "error", problem), '}'))
		return
	}
	keys := e.opts.Keys.Keys()
	if len(keys) == 0 {
		e.refuse(w, r, RefusedUnavailable, &StatusError{Code: http.StatusServiceUnavailable, Text: "No token keys", RetryAfter: retryAfter})
		return
	}
	t := token{
		until:   e.opts.Keys.Now().Add(e.opts.TokenLifetime),
		id:      newID(),
		owner:   e.owner,
		address: *e.advertised.Load(),
	}
	if version == 0 {
		t.flags = flagPublic
	} else if e.opts.AllowStatefulReconnects {
		if asked, _ := queryValue(r, "useStatefulReconnect"); strings.EqualFold(asked, "true") {
			t.flags = flagReconnect
		}
	}
	t.sign(&keys[0])
	e.negotiated.Add(1)
	writeJSON(w, e.appendAnswer(make([]byte, 0, 512), version, &t))
}

// negotiateVersion is the version that the client asks for, or ours if that is
// lower; what is asked for must not be below the minimum. The problem is
// SignalR's text for a version that is none, or too old.
func (e *Endpoint) negotiateVersion(r *http.Request) (version int, problem string) {
	n := int64(0)
	if asked, given := queryValue(r, "negotiateVersion"); given {
		var err error
		if n, err = strconv.ParseInt(strings.TrimSpace(asked), 10, 32); err != nil {
			return 0, "The client requested a non-integer protocol version."
		}
	}
	if n < int64(e.opts.MinimumNegotiateVersion) {
		return 0, "The client requested version '" + strconv.FormatInt(n, 10) + "', but the server does not support this version."
	}
	return int(max(0, min(n, maxNegotiateVersion))), ""
}

// appendAnswer writes the members in the order in which SignalR's server does.
func (e *Endpoint) appendAnswer(b []byte, version int, t *token) []byte {
	b = append(b, '{')
	if t.flags&flagReconnect != 0 {
		b = append(b, `"useStatefulReconnect":true,`...)
	}
	b = append(b, `"negotiateVersion":`...)
	b = strconv.AppendInt(b, int64(version), 10)
	b = appendMember(b, ",", "connectionId", t.connID())
	if version > 0 {
		b = appendMember(b, ",", "connectionToken", t.text)
	}
	b = append(b, `,"availableTransports":[`...)
	for i, kind := range e.opts.Transports {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMember(b, "{", "transport", string(kind))
		if kind == ServerSentEvents {
			b = append(b, `,"transferFormats":["Text"]}`...)
		} else {
			b = append(b, `,"transferFormats":["Text","Binary"]}`...)
		}
	}
	return append(b, "]}"...)
}

// appendMember writes a member of an object whose value needs no escaping.
func appendMember(b []byte, before, name, value string) []byte {
	b = append(b, before...)
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":"`...)
	b = append(b, value...)
	return append(b, '"')
}

func writeJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store") // a token is a secret
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may have gone
}

// queryValue is the value of a query key, spelled in any case. Several values
// are joined with commas, as ASP.NET Core reads them: no id and no number looks
// like that.
func queryValue(r *http.Request, key string) (value string, given bool) {
	values, _ := url.ParseQuery(r.URL.RawQuery) // what can be read of it counts
	var found []string
	for k, v := range values {
		if strings.EqualFold(k, key) {
			found = append(found, v...)
		}
	}
	return strings.Join(found, ","), len(found) > 0
}
