package hub

import (
	"unicode"
	"unicode/utf8"
)

// maxNameBytes bounds the names of groups, users and targets.
const maxNameBytes = 1024

// validName checks a name that came from outside. Names are compared byte for
// byte and may hold any text without control characters. The error is meant
// for clients and matches ErrBadName.
func validName(kind, name string) error {
	switch {
	case name == "":
		return Errorf("%w: the %s name is empty", badName{}, kind)
	case len(name) > maxNameBytes:
		return Errorf("%w: the %s name has %d bytes, more than %d", badName{}, kind, len(name), maxNameBytes)
	}
	for i, r := range name {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(name[i:]); size == 1 {
				return Errorf("%w: the %s name is not valid UTF-8", badName{}, kind)
			}
		}
		if unicode.IsControl(r) {
			return Errorf("%w: the %s name has the control character %U", badName{}, kind, r)
		}
	}
	return nil
}

// badName shows clients a short head and is ErrBadName for errors.Is.
type badName struct{}

func (badName) Error() string        { return "Bad name" }
func (badName) Is(target error) bool { return target == ErrBadName }

var _ error = badName{}
