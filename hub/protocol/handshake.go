package protocol

import (
	"strconv"
	"strings"
)

// The texts of a refused handshake that name nothing. The others are built by
// the functions below.
const (
	HandshakeCanceled   = "Handshake was canceled."
	HandshakeUnexpected = "An unexpected error occurred during connection handshake."
)

// A HandshakeRequest is the first record a client sends, always JSON
// (HubProtocol.md, "Handshake").
type HandshakeRequest struct {
	// Protocol is the name of the hub protocol as the client spelled it;
	// names are matched without case.
	Protocol string

	// Version of that protocol: 1, or 2 with stateful reconnects. Judging
	// it is the caller's.
	Version int
}

// ParseHandshakeRequest reads the handshake request at the beginning of b and
// returns how many bytes it took. size 0 means that more bytes are needed.
// limit is the longest record allowed, separator included; 0 means none, and
// ErrTooLarge is what a longer one gets. All errors are of type *Error.
func ParseHandshakeRequest(b []byte, limit int) (r HandshakeRequest, size int, err error) {
	body, size, err := JSON{}.Cut(b, limit)
	if size == 0 || err != nil {
		return HandshakeRequest{}, 0, err
	}
	name, version, err := scanHandshake(body, "protocol", "version")
	switch {
	case err != nil:
		return HandshakeRequest{}, 0, err
	case name == nil:
		return HandshakeRequest{}, 0, missing("protocol")
	case version == nil:
		return HandshakeRequest{}, 0, missing("version")
	}
	text, err := jsonText(name, "protocol")
	if err != nil {
		return HandshakeRequest{}, 0, err
	}
	n, ok := parseInteger(version, 32)
	if !ok {
		return HandshakeRequest{}, 0, wrongType("version", "Number")
	}
	return HandshakeRequest{Protocol: string(text), Version: int(n)}, size, nil
}

// ParseHandshakeResponse reads the answer to a handshake request at the
// beginning of b. errText is empty if the server agreed. size 0 means that
// more bytes are needed.
func ParseHandshakeResponse(b []byte) (errText string, size int, err error) {
	body, size, _ := JSON{}.Cut(b, 0)
	if size == 0 {
		return "", 0, nil
	}
	text, typ, err := scanHandshake(body, "error", "type")
	switch {
	case err != nil:
		return "", 0, err
	case typ != nil:
		return "", 0, &Error{Reason: ReasonNotRecord, Detail: "Expected a handshake response from the server."}
	case text == nil:
		return "", size, nil
	}
	s, err := jsonText(text, "error")
	if err != nil {
		return "", 0, err
	}
	return string(s), size, nil
}

// scanHandshake returns the raw values of two members of the object in body,
// nil where absent; the last of repeated ones wins.
func scanHandshake(body []byte, first, second string) (a, b []byte, err error) {
	i, err := objectStart(body)
	if err != nil {
		return nil, nil, err
	}
	if end := scanValue(body, i, 0); end < 0 || skipSpace(body, end) != len(body) {
		return nil, nil, malformedJSON()
	}
	for i, more := skipSpace(body, i+1), true; more && body[i] != '}'; {
		end, _ := scanString(body, i)
		name, _ := jsonText(body[i:end], "")
		start := scanColon(body, end)
		end = scanValue(body, start, 1)
		switch string(name) {
		case first:
			a = body[start:end]
		case second:
			b = body[start:end]
		}
		i, more = scanNext(body, end, '}')
	}
	return a, b, nil
}

// AppendHandshakeRequest appends a request, as clients send it, to dst.
func AppendHandshakeRequest(dst []byte, r HandshakeRequest) []byte {
	dst = append(dst, `{"protocol":`...)
	dst = appendQuoted(dst, r.Protocol)
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, int64(r.Version), 10)
	return append(dst, '}', recordSeparator)
}

// AppendHandshakeResponse appends the answer to a handshake request to dst:
// exactly {} and the separator if errText is empty, a refusal otherwise.
func AppendHandshakeResponse(dst []byte, errText string) []byte {
	if errText == "" {
		return append(dst, '{', '}', recordSeparator)
	}
	dst = append(dst, `{"error":`...)
	dst = appendQuoted(dst, errText)
	return append(dst, '}', recordSeparator)
}

// UnsupportedProtocolText is the refusal of a protocol that is not known or
// not allowed.
func UnsupportedProtocolText(name string) string {
	return "The protocol '" + name + "' is not supported."
}

// UnsupportedVersionText is the refusal of a version above 2.
func UnsupportedVersionText(name string, version int) string {
	return "The server does not support version " + strconv.Itoa(version) + " of the '" + name + "' protocol."
}

// UnsupportedTransferText is the refusal of a binary protocol on a transport
// that carries only text (Server-Sent Events).
func UnsupportedTransferText(name string) string {
	return "Cannot use the '" + name + "' protocol on the current transport. The transport does not support 'Binary' transfer format."
}

// ByName returns the protocol of that name, matched without case as in the
// handshake, from those given.
func ByName(name string, protocols ...Protocol) (Protocol, bool) {
	for _, p := range protocols {
		if strings.EqualFold(name, p.Name()) {
			return p, true
		}
	}
	return nil, false
}
