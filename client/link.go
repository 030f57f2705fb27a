package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// A link makes the requests of one connection without WebSockets: every one
// with the connection's token and with an access token of its own.
type link struct {
	client *Client
	door   door
	http   http.Client
	ctx    context.Context // of the connection; all requests end with it
	cut    context.CancelFunc
}

func (c *Client) newLink(ctx context.Context, d door) *link {
	l := &link{client: c, door: d, http: *c.opts.HTTPClient}
	l.http.Timeout = 0 // some responses last
	l.ctx, l.cut = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// do makes one request, which lasts until ctx ends or the body is closed.
func (l *link) do(ctx context.Context, method, query string, header map[string]string, body []byte) (*http.Response, error) {
	head, err := l.client.header(ctx, l.door)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		head.Set(name, value)
	}
	u := l.door.address()
	if query != "" {
		u.RawQuery += "&" + query
	}
	var content io.Reader = http.NoBody
	if len(body) > 0 {
		content = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	request.Header = head
	return l.http.Do(request)
}

// write posts records and waits for the answer: requests of one connection
// may not overtake each other.
func (l *link) write(records []byte) error {
	ctx, cancel := context.WithTimeout(l.ctx, requestTimeout)
	defer cancel()
	content := "text/plain;charset=UTF-8"
	if l.client.opts.Protocol.Binary() {
		content = "application/octet-stream"
	}
	response, err := l.do(ctx, http.MethodPost, "", map[string]string{"Content-Type": content}, records)
	if err != nil {
		return fmt.Errorf("client: send: %w", err)
	}
	discard(response)
	if response.StatusCode != http.StatusOK {
		return &StatusError{Step: "send", Status: response.StatusCode}
	}
	return nil
}

// discard reads what a body holds, within reason, so that its connection can
// be used again.
func discard(response *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxNegotiateBody))
	response.Body.Close()
}
