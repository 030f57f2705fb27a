package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// An eventStream is the conn over Server-Sent Events: one response brings what
// the server sends, posts take what the client does (TransportProtocols.md,
// "Server-Sent Events").
type eventStream struct {
	*link
	body    io.Closer
	decoder eventDecoder // owned by the reader
}

// openEvents makes the request for the events and waits for its header.
func (c *Client) openEvents(ctx context.Context, d door) (conn, error) {
	l := c.newLink(ctx, d)
	defer context.AfterFunc(ctx, l.cut)()
	limit := time.AfterFunc(requestTimeout, l.cut)
	response, err := l.do(l.ctx, http.MethodGet, "", map[string]string{"Accept": eventMedia}, nil)
	if !limit.Stop() && err != nil {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	if err != nil {
		l.cut()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("client: connect: %w", err)
	}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode != http.StatusOK:
		err = &StatusError{Step: "connect", Status: response.StatusCode}
	case media != eventMedia:
		err = fmt.Errorf("client: connect: the answer is %q, not an event stream", media)
	default:
		return &eventStream{link: l, body: response.Body, decoder: eventDecoder{in: bufio.NewReader(response.Body)}}, nil
	}
	l.cut()
	response.Body.Close()
	return nil, err
}

const eventMedia = "text/event-stream"

func (e *eventStream) read(p []byte) (n int, whole bool, err error) {
	n, whole, err = e.decoder.read(p)
	switch {
	case errors.Is(err, io.EOF):
		return n, whole, errServerEnded
	case err != nil:
		return n, whole, fmt.Errorf("client: event stream: %w", err)
	}
	return n, whole, nil
}

// close drops the request: there is no other end.
func (e *eventStream) close() { e.cut() }

func (e *eventStream) cut() {
	e.link.cut()
	e.body.Close()
}

// An eventDecoder reads the data of events (WHATWG HTML, "Parsing an event
// stream"). It holds none of it: data is passed on as it comes, since records
// know their ends.
type eventDecoder struct {
	in    *bufio.Reader
	state eventState
	name  int  // bytes of "data" that the line began with
	cr    bool // a carriage return ended the last line: a line feed belongs to it
	lines int  // data lines of this event so far
}

type eventState int

const (
	inName  eventState = iota // of a field, at the beginning of a line
	inSpace                   // behind the colon of data
	inData
	inOther // a line that does not matter
)

const dataName = "data"

// read returns data. whole says that an event ends behind it.
func (d *eventDecoder) read(p []byte) (n int, whole bool, err error) {
	for n < len(p) {
		if n > 0 && d.in.Buffered() == 0 {
			break // do not wait with what there is
		}
		b, err := d.in.ReadByte()
		if err != nil {
			if n > 0 {
				break // it comes again
			}
			return n, false, err
		}
		if d.cr {
			d.cr = false
			if b == '\n' {
				continue
			}
		}
		if b == '\r' || b == '\n' {
			d.cr = b == '\r'
			more, whole := d.endLine(p[n:])
			if n += more; whole {
				return n, true, nil
			}
			continue
		}
		n += d.take(b, p[n:])
	}
	return n, false, nil
}

// take handles a byte inside a line and returns how many bytes it has put
// into p, which has room for one.
func (d *eventDecoder) take(b byte, p []byte) int {
	switch d.state {
	case inName:
		switch {
		case d.name < len(dataName) && b == dataName[d.name]:
			d.name++
		case d.name == len(dataName) && b == ':':
			d.state = inSpace
			return d.beginData(p)
		default:
			d.state = inOther
		}
	case inSpace:
		d.state = inData
		if b != ' ' {
			p[0] = b
			return 1
		}
	case inData:
		p[0] = b
		return 1
	}
	return 0
}

// beginData parts lines of data by line feeds.
func (d *eventDecoder) beginData(p []byte) int {
	if d.lines++; d.lines == 1 {
		return 0
	}
	p[0] = '\n'
	return 1
}

// endLine handles the end of a line. whole says that the line was the empty
// one that ends an event with data.
func (d *eventDecoder) endLine(p []byte) (n int, whole bool) {
	empty := d.state == inName && d.name == 0
	if d.state == inName && d.name == len(dataName) {
		n = d.beginData(p) // "data" alone is an empty line of data
	}
	d.state, d.name = inName, 0
	if empty {
		whole = d.lines > 0
		d.lines = 0
	}
	return n, whole
}
