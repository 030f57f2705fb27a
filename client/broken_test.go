package client

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A halfBroken transport upgrades to connections on which writes fail once
// broken is closed, while reads go on.
type halfBroken struct {
	base   http.RoundTripper
	broken chan struct{}
}

func (h halfBroken) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.base.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		response.Body = halfBrokenConn{response.Body.(io.ReadWriteCloser), h.broken}
	}
	return response, err
}

type halfBrokenConn struct {
	io.ReadWriteCloser
	broken chan struct{}
}

func (c halfBrokenConn) Write(b []byte) (int, error) {
	select {
	case <-c.broken:
		return 0, io.ErrClosedPipe
	default:
		return c.ReadWriteCloser.Write(b)
	}
}

// TestWriteFails: what the server sent before counts more than the failure.
func TestWriteFails(t *testing.T) {
	for _, c := range []struct {
		finish string
		record string // that arrives after a second
		want   error
		after  time.Duration
	}{
		{"closes for the reason the server gave", `{"type":7}`, nil, time.Second},
		{"closes for the failure if nothing more comes", `{"type":6}`, io.ErrClosedPipe, readerGrace},
	} {
		t.Run("it "+c.finish, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newServer(t, func(p *peer) { p.sendAfter(time.Second, c.record) }).client(Options{})
				broken := make(chan struct{})
				client.opts.HTTPClient = &http.Client{Transport: halfBroken{client.opts.HTTPClient.Transport, broken}}
				closed := make(chan error, 1)
				client.OnClosed(func(err error) { closed <- err })
				begin := time.Now()
				if err := client.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the first ping is out
				close(broken)
				if err := client.Send(t.Context(), "X"); err != nil {
					t.Error(err)
				}
				if err := <-closed; !errors.Is(err, c.want) || time.Since(begin) != c.after {
					t.Errorf("got %v after %v, want %v after %v", err, time.Since(begin), c.want, c.after)
				}
			})
		})
	}
}
