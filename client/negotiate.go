package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A negotiation is what negotiate answers (TransportProtocols.md, "POST
// [endpoint-base]/negotiate").
type negotiation struct {
	NegotiateVersion     int                  `json:"negotiateVersion"`
	ConnectionID         string               `json:"connectionId"`
	ConnectionToken      string               `json:"connectionToken"`
	AvailableTransports  []availableTransport `json:"availableTransports"`
	URL                  string               `json:"url"`
	AccessToken          string               `json:"accessToken"`
	Error                string               `json:"error"`
	UseStatefulReconnect bool                 `json:"useStatefulReconnect"`
}

type availableTransport struct {
	Transport       string   `json:"transport"`
	TransferFormats []string `json:"transferFormats"`
}

// A door is where, how and as whom a connection is to be opened.
type door struct {
	url       *url.URL
	transport Transport

	// resumable says that the server agreed to stateful reconnects.
	resumable bool

	// connectionID is empty without negotiation, and so is token, the value
	// of the query parameter id.
	connectionID string
	token        string

	// bearer, if not empty, comes from a redirect and takes the place of the
	// application's access tokens.
	bearer string
}

// address is the URL of the connection.
func (d door) address() *url.URL {
	u := *d.url
	if d.token != "" {
		u.RawQuery = addQuery(u.RawQuery, "id", d.token)
	}
	return &u
}

// negotiate asks at a door for the one to use and for the transports behind
// it. It follows redirects.
func (c *Client) negotiate(ctx context.Context, d door) (door, []availableTransport, error) {
	for range maxRedirects {
		n, err := c.postNegotiate(ctx, d)
		switch {
		case err != nil:
			return door{}, nil, err
		case n.Error != "":
			return door{}, nil, &NegotiateError{Text: n.Error}
		case n.URL == "":
			d, err = d.accept(n, c.opts.StatefulReconnect)
			return d, n.AvailableTransports, err
		}
		next, err := d.url.Parse(n.URL)
		if err == nil {
			next, err = parseURL(next.String())
		}
		if err != nil {
			return door{}, nil, fmt.Errorf("client: negotiate: redirect: %w", err)
		}
		d.url = next
		if n.AccessToken != "" {
			d.bearer = n.AccessToken
		}
	}
	return door{}, nil, ErrTooManyRedirects
}

// accept completes a door with an answer that is no redirect.
func (d door) accept(n negotiation, stateful bool) (door, error) {
	if n.UseStatefulReconnect && !stateful {
		return door{}, &NegotiateError{Text: "stateful reconnect, which was not asked for"}
	}
	d.connectionID, d.token, d.resumable = n.ConnectionID, n.ConnectionToken, n.UseStatefulReconnect
	if n.NegotiateVersion == 0 {
		d.token = n.ConnectionID
	}
	if d.token == "" {
		return door{}, &NegotiateError{Text: "the answer holds no connection token"}
	}
	return d, nil
}

// postNegotiate makes one request.
func (c *Client) postNegotiate(ctx context.Context, d door) (negotiation, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	header, err := c.header(ctx, d)
	if err != nil {
		return negotiation{}, err
	}
	u := *d.url
	u.Path = negotiatePath(u.Path)
	if u.RawPath != "" {
		u.RawPath = negotiatePath(u.RawPath)
	}
	u.RawQuery = addQuery(u.RawQuery, "negotiateVersion", "1")
	if c.opts.StatefulReconnect {
		u.RawQuery = addQuery(u.RawQuery, "useStatefulReconnect", "true")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), http.NoBody)
	if err != nil {
		return negotiation{}, fmt.Errorf("client: negotiate: %w", err)
	}
	request.Header = header
	response, err := c.opts.HTTPClient.Do(request)
	if err != nil {
		return negotiation{}, fmt.Errorf("client: negotiate: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxNegotiateBody))
	switch {
	case response.StatusCode != http.StatusOK:
		return negotiation{}, &StatusError{Step: "negotiate", Status: response.StatusCode}
	case err != nil:
		return negotiation{}, fmt.Errorf("client: negotiate: read answer: %w", err)
	}
	var n negotiation
	if err := json.Unmarshal(body, &n); err != nil {
		return negotiation{}, fmt.Errorf("client: negotiate: parse answer: %w", err)
	}
	return n, nil
}

// header makes the header of one request.
func (c *Client) header(ctx context.Context, d door) (http.Header, error) {
	header := c.opts.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	// Asks servers for a status instead of a redirect to a login page.
	header.Set("X-Requested-With", "XMLHttpRequest")
	bearer := d.bearer
	if bearer == "" && c.opts.AccessToken != nil {
		token, err := c.opts.AccessToken(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: access token: %w", err)
		}
		bearer = token
	}
	if bearer != "" {
		header.Set("Authorization", "Bearer "+bearer)
	}
	return header, nil
}

// negotiatePath appends /negotiate to a hub's path.
func negotiatePath(path string) string {
	return strings.TrimSuffix(path, "/") + "/negotiate"
}

// addQuery appends a parameter to a raw query, which is kept as it is.
func addQuery(raw, name, value string) string {
	if raw != "" {
		raw += "&"
	}
	return raw + name + "=" + url.QueryEscape(value)
}
