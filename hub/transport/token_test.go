package transport

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"
)

func sample(key *Key) token {
	t := token{
		until:   time.UnixMilli(1_700_000_000_123),
		id:      newID(),
		owner:   "node-1-0123456789abcdef0123456789abcdef",
		address: "10.1.2.3:8080",
	}
	t.sign(key)
	return t
}

func TestTokenRoundTrip(t *testing.T) {
	key := NewKey()
	long := strings.Repeat("x", maxTokenText)
	for _, in := range []token{
		sample(&key),
		{},
		{flags: flagPublic | flagReconnect, until: time.UnixMilli(1), id: newID(), owner: long, address: long},
	} {
		in.sign(&key)
		got, err := parseToken(in.text, []Key{NewKey(), key})
		if err != nil {
			t.Fatalf("%q: %v", in.text, err)
		}
		if got.flags != in.flags || got.until.UnixMilli() != in.until.UnixMilli() || got.id != in.id ||
			got.owner != in.owner || got.address != in.address || got.text != in.text {
			t.Errorf("got %+v, want %+v", got, in)
		}
		if url.QueryEscape(in.text) != in.text {
			t.Errorf("%q needs escaping in a query", in.text)
		}
	}
}

func TestTokenIDs(t *testing.T) {
	key := NewKey()
	tok := sample(&key)
	if id := tok.connID(); len(id) != 22 || url.QueryEscape(id) != id {
		t.Errorf("got id %q, want 22 characters of base64url", id)
	}
	tok.flags = flagPublic
	tok.sign(&key)
	if id := tok.connID(); id != tok.text {
		t.Errorf("got id %q for version 0, want the token", id)
	}
	if a, b := newID(), newID(); a == b {
		t.Error("two ids are equal")
	}
}

func TestTokenRefuses(t *testing.T) {
	key := NewKey()
	good := sample(&key)
	refused := func(what, text string) {
		t.Helper()
		if _, err := parseToken(text, []Key{key}); err == nil {
			t.Errorf("%s: accepted %q", what, text)
		}
	}
	for n := range len(good.text) {
		refused("cut", good.text[:n])
	}
	refused("longer", good.text+"A")
	refused("padded", good.text+"=")
	refused("with a line feed", good.text[:9]+"\n"+good.text[9:])
	refused("twice", good.text+good.text)
	refused("too long", strings.Repeat("A", 1<<16))
	refused("its public id", good.connID())
	refused("not base64url", strings.Repeat("+", len(good.text)))

	for i := range good.text {
		for bit := range 8 {
			changed := []byte(good.text)
			changed[i] ^= 1 << bit
			refused("bit flipped", string(changed))
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(good.text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			refused("byte changed", base64.RawURLEncoding.EncodeToString(raw))
			raw[i] ^= 1 << bit
		}
	}
	if _, err := parseToken(good.text, []Key{NewKey()}); err == nil {
		t.Error("accepted under a foreign key")
	}
	if _, err := parseToken(good.text, nil); err == nil {
		t.Error("accepted without keys")
	}
}

// TestTokenSignedButMalformed covers what only a holder of the key could send:
// a later version of this program, or a mistake in it.
func TestTokenSignedButMalformed(t *testing.T) {
	key := NewKey()
	sign := func(body []byte) string {
		return base64.RawURLEncoding.EncodeToString(appendSignature(body, &key))
	}
	head := make([]byte, tokenHead)
	head[0] = tokenVersion
	newer := append([]byte(nil), head...)
	newer[0]++
	for name, body := range map[string][]byte{
		"newer version":          append(newer, 0, 0),
		"owner beyond the end":   append(head[:tokenHead:tokenHead], 9, 'x'),
		"no address":             append(head[:tokenHead:tokenHead], 1, 'x'),
		"address beyond the end": append(head[:tokenHead:tokenHead], 1, 'x', 3, 'y'),
		"something behind":       append(head[:tokenHead:tokenHead], 0, 0, 1),
	} {
		if _, err := parseToken(sign(body), []Key{key}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := parseToken(sign(append(head[:tokenHead:tokenHead], 0, 0)), []Key{key}); err != nil {
		t.Errorf("the same without a fault: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	key := Key{1, 2, 3}
	good := sample(&key)
	f.Add(good.text)
	f.Add(good.connID())
	f.Add("")
	public := good
	public.flags = flagPublic
	public.sign(&key)
	f.Add(public.text)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseToken(text, []Key{{9}, key})
		if err != nil {
			return
		}
		again := got
		again.sign(&key)
		if again.text != text {
			t.Errorf("accepted %q, which is written %q", text, again.text)
		}
	})
}

// FuzzTokenBody goes behind the signature.
func FuzzTokenBody(f *testing.F) {
	key := Key{1, 2, 3}
	good := sample(&key)
	raw, err := base64.RawURLEncoding.DecodeString(good.text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:len(raw)-32])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		text := base64.RawURLEncoding.EncodeToString(appendSignature(body, &key))
		got, err := parseToken(text, []Key{key})
		if err != nil {
			return
		}
		again := got
		again.sign(&key)
		if again.text != text {
			t.Errorf("accepted %q, which is written %q", text, again.text)
		}
	})
}
