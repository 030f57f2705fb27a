package forward

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	version   = 1
	nonceSize = 16

	// lifetime is how old, or how far in the future, a signature may be.
	lifetime = 30 * time.Second

	// maxClient bounds a client's address in bytes; what is longer is cut. An
	// http.Server's own are much shorter, a middleware may set what it likes.
	maxClient = 1024

	claimHead    = 1 + 8 + nonceSize + 1 + 2
	minClaimSize = claimHead + sha256.Size
	maxClaimSize = minClaimSize + maxClient

	// label keeps these signatures apart from whatever else is signed with
	// the same key.
	label = "switchboard forwarded request\x00"
)

// errClaim is the one answer to every header value that is no claim.
var errClaim = errors.New("malformed")

// A claim is what the header says about a forwarded request.
type claim struct {
	time   int64 // milliseconds since 1970
	nonce  [nonceSize]byte
	secure bool   // the client used https
	client string // its address
}

// newClaim describes a request as it arrived here.
func newClaim(r *http.Request, now time.Time) claim {
	c := claim{time: now.UnixMilli(), secure: clientScheme(r) == "https", client: r.RemoteAddr}
	if len(c.client) > maxClient {
		c.client = c.client[:maxClient]
	}
	rand.Read(c.nonce[:]) // never fails
	return c
}

// append appends the claim without its signature.
func (c claim) append(b []byte) []byte {
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(c.time))
	b = append(b, c.nonce[:]...)
	secure := byte(0)
	if c.secure {
		secure = 1
	}
	b = append(b, secure)
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.client)))
	return append(b, c.client...)
}

// sign returns the header's value for the request.
func (c claim) sign(r *http.Request, key [32]byte) string {
	b := c.append(make([]byte, 0, minClaimSize+len(c.client)))
	b = appendSignature(b, b, r, key)
	return base64.RawURLEncoding.EncodeToString(b)
}

// appendSignature appends the signature of a claim and its request to b.
func appendSignature(b, claim []byte, r *http.Request, key [32]byte) []byte {
	mac := hmac.New(sha256.New, key[:])
	text := make([]byte, 0, len(label)+len(claim)+3*4+len(r.Method)+len(r.RequestURI)+len(r.Host))
	text = append(append(text, label...), claim...)
	for _, part := range [...]string{r.Method, r.RequestURI, r.Host} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	mac.Write(text)
	return mac.Sum(b)
}

// parseClaim takes a header's value apart. It does not check the signature,
// which it returns with the bytes of the claim that were signed.
func parseClaim(text string) (c claim, signed, signature []byte, err error) {
	encoding := base64.RawURLEncoding.Strict()
	if len(text) > encoding.EncodedLen(maxClaimSize) {
		return claim{}, nil, nil, errClaim
	}
	b, err := encoding.DecodeString(text)
	if err != nil || len(b) < minClaimSize || encoding.EncodedLen(len(b)) != len(text) { // the decoder skips line feeds
		return claim{}, nil, nil, errClaim
	}
	signed, signature = b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	scheme := b[claimHead-3]
	if b[0] != version || scheme > 1 || int(binary.BigEndian.Uint16(b[claimHead-2:])) != len(signed)-claimHead {
		return claim{}, nil, nil, errClaim
	}
	c = claim{time: int64(binary.BigEndian.Uint64(b[1:])), secure: scheme == 1, client: string(signed[claimHead:])}
	copy(c.nonce[:], b[9:])
	return c, signed, signature, nil
}

// Accept checks whether a request comes from another instance. If so (signed)
// the returned request has the client's RemoteAddr and, in X-Forwarded-Proto,
// its scheme as the first instance saw them, no TLS state, which would be that
// of the first instance, and no signature header. A request that claims nothing
// is returned as it is. A request with a false claim is an ErrRefused: one that
// no accepted key has signed for exactly this method, request URI and Host,
// that is too old or too far in the future, or that was here before.
//
// It needs the Method, RequestURI and Host that the server has read: call it
// before a middleware changes them.
func (f *Forwarder) Accept(r *http.Request) (out *http.Request, signed bool, err error) {
	values, ok := r.Header[header]
	if !ok {
		return r, false, nil
	}
	c, err := f.check(r, values)
	if err != nil {
		f.refused.Add(1)
		return nil, false, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	f.accepted.Add(1)
	out = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
	out.Header = r.Header.Clone()
	delete(out.Header, header)
	out.RemoteAddr, out.TLS = c.client, nil
	scheme := "http"
	if c.secure {
		scheme = "https"
	}
	out.Header["X-Forwarded-Proto"] = []string{scheme}
	return out, true, nil
}

func (f *Forwarder) check(r *http.Request, values []string) (claim, error) {
	if len(values) != 1 {
		return claim{}, errClaim
	}
	c, signed, signature, err := parseClaim(values[0])
	if err != nil {
		return claim{}, err
	}
	_, accept, ok := f.keys()
	if !ok {
		return claim{}, errors.New("no keys")
	}
	good := false
	for _, key := range accept {
		good = hmac.Equal(appendSignature(nil, signed, r, key), signature) || good
	}
	if !good {
		return claim{}, errors.New("wrong signature")
	}
	now := f.now()
	if age := now.Sub(time.UnixMilli(c.time)); age > lifetime || age < -lifetime {
		return claim{}, fmt.Errorf("signed %v ago", age.Round(time.Millisecond))
	}
	return c, f.seen.add(c.nonce, c.time+lifetime.Milliseconds(), now.UnixMilli())
}
