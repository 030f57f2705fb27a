package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A polling is the conn over long polling (TransportProtocols.md, "Long
// Polling"). One poll is open at a time.
type polling struct {
	*link
	polls context.Context // of the polls
	stop  context.CancelFunc

	// Owned by the reader.
	body io.ReadCloser // of the poll's answer; nil between polls
	some bool          // of the body was read
	done context.CancelFunc
}

// openPolling makes the first poll, which the server answers at once.
func (c *Client) openPolling(ctx context.Context, d door) (conn, error) {
	p := &polling{link: c.newLink(ctx, d)}
	p.polls, p.stop = context.WithCancel(p.ctx)
	defer context.AfterFunc(ctx, p.cut)()
	err := p.poll()
	if err != nil {
		p.cut()
		if ctx.Err() != nil {
			err = fmt.Errorf("client: connect: %w", ctx.Err())
		}
		var status *StatusError
		if errors.As(err, &status) {
			status.Step = "connect"
		}
		return nil, err
	}
	return p, nil
}

// poll waits for an answer with a body. A poll that the server leaves open for
// too long is replaced by another.
func (p *polling) poll() error {
	for {
		ctx, cancel := context.WithTimeout(p.polls, requestTimeout)
		response, err := p.do(ctx, http.MethodGet, "_="+strconv.FormatInt(time.Now().UnixMilli(), 10), nil, nil)
		switch {
		case err != nil && ctx.Err() != nil && p.polls.Err() == nil:
			cancel()
			continue
		case err != nil:
			cancel()
			return fmt.Errorf("client: poll: %w", err)
		case response.StatusCode == http.StatusOK:
			p.body, p.some, p.done = response.Body, false, cancel
			return nil
		}
		discard(response)
		cancel()
		if response.StatusCode == http.StatusNoContent {
			return errServerEnded
		}
		return &StatusError{Step: "poll", Status: response.StatusCode}
	}
}

func (p *polling) read(b []byte) (n int, whole bool, err error) {
	for {
		if p.body == nil {
			if err := p.poll(); err != nil {
				return 0, false, err
			}
		}
		n, err := p.body.Read(b)
		p.some = p.some || n > 0
		switch {
		case err == nil:
			return n, false, nil
		case !errors.Is(err, io.EOF):
			p.endPoll()
			return n, false, fmt.Errorf("client: poll: %w", err)
		}
		p.endPoll()
		if p.some { // else there was nothing for a while
			return n, true, nil
		}
	}
}

func (p *polling) endPoll() {
	p.body.Close()
	p.body = nil
	p.done()
}

// close gives up the poll and ends the connection. That the server may not
// know it any more is no matter.
func (p *polling) close() {
	p.stop()
	ctx, cancel := context.WithTimeout(p.ctx, closeTimeout)
	defer cancel()
	if response, err := p.do(ctx, http.MethodDelete, "", nil, nil); err == nil {
		discard(response)
	}
	p.link.cut()
}

// cut ends all requests. (The embedded field would do, if it were a method.)
func (p *polling) cut() { p.link.cut() }
