package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

const (
	tokenVersion = 1
	tokenIDSize  = 16

	// maxTokenText bounds the owner's name and address in a token: their
	// lengths are single bytes.
	maxTokenText = 255

	tokenHead = 1 + 1 + 8 + tokenIDSize // version, flags, end of life, id

	minTokenSize = tokenHead + 2 + sha256.Size
	maxTokenSize = minTokenSize + 2*maxTokenText

	// tokenLabel keeps signatures of tokens apart from whatever else is
	// signed with the same key.
	tokenLabel = "switchboard connection token\x00"

	// flagReconnect says that stateful reconnects were agreed.
	flagReconnect = 1 << 0

	// flagPublic marks the token of a client that negotiated version 0: it
	// knows no other connection id.
	flagPublic = 1 << 1
)

// errToken is the one answer to every string that is no token of ours: how far
// a guess came is nobody's business.
var errToken = errors.New("transport: not a connection token")

// A token is what a client shows to open the connection that it negotiated:
//
//	version      1 byte, 1
//	flags        1 byte
//	end of life  8 bytes, milliseconds since 1970 on the clock of the KeySource
//	id           16 random bytes
//	owner        1 byte of length, the instance that negotiated
//	address      1 byte of length, where other instances reach the owner
//	signature    32 bytes, HMAC-SHA256 over tokenLabel and all of the above
//
// in big-endian order and base64url without padding, so that it can stand in a
// query as it is: clients do not escape it.
type token struct {
	flags   byte
	until   time.Time
	id      [tokenIDSize]byte
	owner   string
	address string
	text    string // the whole token as the client shows it
}

// connID is the public id of the connection that the token opens.
func (t *token) connID() string {
	if t.flags&flagPublic != 0 {
		return t.text
	}
	return encodeID(t.id)
}

// newID returns the random part of a connection id.
func newID() (id [tokenIDSize]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// encodeID writes a connection id: 22 characters of base64url.
func encodeID(id [tokenIDSize]byte) string {
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// sign fills in the token's text. Owner and address were checked by New.
func (t *token) sign(key *Key) {
	b := make([]byte, 0, minTokenSize+len(t.owner)+len(t.address))
	b = append(b, tokenVersion, t.flags)
	b = binary.BigEndian.AppendUint64(b, uint64(t.until.UnixMilli()))
	b = append(b, t.id[:]...)
	b = append(append(b, byte(len(t.owner))), t.owner...)
	b = append(append(b, byte(len(t.address))), t.address...)
	b = appendSignature(b, key)
	t.text = base64.RawURLEncoding.EncodeToString(b)
}

// appendSignature appends the signature of everything in b to b.
func appendSignature(b []byte, key *Key) []byte {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(tokenLabel))
	mac.Write(b)
	return mac.Sum(b)
}

// parseToken takes a token apart if one of the keys has signed it. It says
// nothing about its end of life.
func parseToken(text string, keys []Key) (token, error) {
	encoding := base64.RawURLEncoding.Strict()
	if len(text) > encoding.EncodedLen(maxTokenSize) {
		return token{}, errToken
	}
	b, err := encoding.DecodeString(text)
	if err != nil || len(b) < minTokenSize || encoding.EncodedLen(len(b)) != len(text) { // the decoder skips line feeds
		return token{}, errToken
	}
	body := b[:len(b)-sha256.Size]
	if b[0] != tokenVersion || !signed(b, len(body), keys) {
		return token{}, errToken
	}
	t := token{flags: b[1], text: text}
	t.until = time.UnixMilli(int64(binary.BigEndian.Uint64(b[2:])))
	copy(t.id[:], b[10:])
	rest := body[tokenHead:]
	var ok bool
	if t.owner, rest, ok = cutText(rest); !ok {
		return token{}, errToken
	}
	if t.address, rest, ok = cutText(rest); !ok || len(rest) > 0 {
		return token{}, errToken
	}
	return t, nil
}

// claimedID is the id in a token that no key in force may have signed.
func claimedID(text string) (id [tokenIDSize]byte, ok bool) {
	if len(text) > base64.RawURLEncoding.EncodedLen(maxTokenSize) {
		return id, false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < minTokenSize {
		return id, false
	}
	copy(id[:], b[tokenHead-tokenIDSize:])
	return id, true
}

// signed reports whether the bytes of b from n on are the signature of those
// before by one of the keys.
func signed(b []byte, n int, keys []Key) bool {
	ok := false
	for i := range keys {
		want := appendSignature(b[:n:n], &keys[i])[n:]
		ok = hmac.Equal(want, b[n:]) || ok
	}
	return ok
}

// cutText takes a text with one byte of length off the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}
