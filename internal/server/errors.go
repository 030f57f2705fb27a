package server

import (
	"errors"

	"github.com/switchboard-hub/switchboard/hub"
)

// forClient turns the hub's typed errors, which tell nothing about the inside,
// into words that clients may read.
func forClient(err error) error {
	for _, known := range []struct {
		err  error
		text string
	}{
		{hub.ErrUnavailable, "The message bus between the servers cannot be reached right now."},
		{hub.ErrTooManyGroups, "This connection is in too many groups."},
		{hub.ErrConnectionNotFound, "The connection has ended."},
	} {
		if errors.Is(err, known.err) {
			return hub.Errorf("%s%w", known.text, quiet{err})
		}
	}
	return err
}

// quiet keeps an error reachable without showing its text.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }
