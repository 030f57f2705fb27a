package forward

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// clock is when the tests of signatures take place.
func clock() time.Time { return time.UnixMilli(1_700_000_000_123) }

// arrived is a request as a server reads it.
func arrived(method, uri, host string) *http.Request {
	r := httptest.NewRequest(method, uri, nil)
	r.Host, r.RemoteAddr = host, "10.0.0.9:1234"
	return r
}

// stamped is a request that was signed at a time with a key.
func stamped(at time.Time, k byte) *http.Request {
	r := arrived("POST", "/hub?id=1", "hub.example")
	r.Header.Set(header, newClaim(r, at).sign(r, key(k)))
	return r
}

func TestAccept(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *http.Request)
		at     time.Duration
		key    byte
		ok     bool
	}{
		{"it takes a fresh signature", nil, 0, 1, true},
		{"it takes a signature by the previous key", nil, 0, 2, true},
		{"it refuses a foreign key", nil, 0, 3, false},
		{"it takes what is 30 s old", nil, -30 * time.Second, 1, true},
		{"it refuses what is older", nil, -30*time.Second - time.Millisecond, 1, false},
		{"it takes what is 30 s ahead", nil, 30 * time.Second, 1, true},
		{"it refuses what is further ahead", nil, 30*time.Second + time.Millisecond, 1, false},
		{"it refuses the far future", nil, 1 << 62, 1, false},
		{"it refuses another method", func(r *http.Request) { r.Method = "GET" }, 0, 1, false},
		{"it refuses another path", func(r *http.Request) { r.RequestURI = "/hub2?id=1" }, 0, 1, false},
		{"it refuses another query", func(r *http.Request) { r.RequestURI = "/hub?id=2" }, 0, 1, false},
		{"it refuses another host", func(r *http.Request) { r.Host = "hub2.example" }, 0, 1, false},
		{"it refuses parts moved about", func(r *http.Request) { r.Host, r.RequestURI = "=1hub.example", "/hub?id" }, 0, 1, false},
		{"it refuses a second header", func(r *http.Request) { r.Header.Add(header, r.Header.Get(header)) }, 0, 1, false},
		{"it refuses an empty header", func(r *http.Request) { r.Header.Set(header, "") }, 0, 1, false},
		{"it refuses a header without a value", func(r *http.Request) { r.Header[header] = nil }, 0, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newForwarder(t, Options{Keys: keys(1, 2), Now: clock})
			r := stamped(clock().Add(test.at), test.key)
			if test.change != nil {
				test.change(r)
			}
			out, signed, err := f.Accept(r)
			if test.ok {
				if err != nil || !signed || out.RemoteAddr != "10.0.0.9:1234" || out.Header.Get(header) != "" || out.Header.Get("X-Forwarded-Proto") != "http" {
					t.Errorf("got %v %v %v", out, signed, err)
				}
			} else if !errors.Is(err, ErrRefused) || signed || out != nil {
				t.Errorf("got %v %v %v", out, signed, err)
			}
			if _, _, err := f.Accept(r); err == nil {
				t.Error("it was taken a second time")
			}
		})
	}
}

func TestAcceptLeavesOthersAlone(t *testing.T) {
	f := newForwarder(t, Options{})
	r := arrived("GET", "/hub", "a")
	if out, signed, err := f.Accept(r); out != r || signed || err != nil {
		t.Errorf("got %v %v %v", out, signed, err)
	}
	if s := f.Stats(); s != (Stats{}) {
		t.Errorf("got %+v", s)
	}
}

func TestWithoutKeysNothingIsSigned(t *testing.T) {
	for _, f := range []*Forwarder{newForwarder(t, Options{Keys: keys()}), New(Options{})} {
		if _, _, err := f.Accept(stamped(time.Now(), 1)); !errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
		w := httptest.NewRecorder()
		if err := f.Forward(w, arrived("GET", "/hub", "a"), "127.0.0.1:1"); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnanswered) {
			t.Errorf("got %v", err)
		}
	}
}

func TestEveryBitIsSigned(t *testing.T) {
	f := newForwarder(t, Options{Now: clock})
	r := stamped(clock(), 1)
	good := r.Header.Get(header)
	b, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		r.Header.Set(header, base64.RawURLEncoding.EncodeToString(b))
		if _, _, err := f.Accept(r); err == nil {
			t.Errorf("bit %d changed: it was taken", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for n := range len(good) {
		r.Header.Set(header, good[:n])
		if _, _, err := f.Accept(r); err == nil {
			t.Errorf("cut to %d bytes: it was taken", n)
		}
	}
	r.Header.Set(header, good[:10]+"\n"+good[10:])
	if _, _, err := f.Accept(r); err == nil {
		t.Error("with a line feed: it was taken")
	}
	r.Header.Set(header, good)
	if _, _, err := f.Accept(r); err != nil {
		t.Error(err)
	}
}

func TestLongClientAddressesAreCut(t *testing.T) {
	f := newForwarder(t, Options{Now: clock})
	r := arrived("GET", "/hub", "a")
	r.RemoteAddr = strings.Repeat("x", 2*maxClient)
	r.Header.Set("X-Forwarded-Proto", "HTTPS, http")
	r.Header.Set(header, newClaim(r, clock()).sign(r, key(1)))
	out, signed, err := f.Accept(r)
	if err != nil || !signed || len(out.RemoteAddr) != maxClient || out.Header.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("got %v %v %v", out, signed, err)
	}
}

func TestNonces(t *testing.T) {
	type step struct {
		nonce      byte
		until, now int64 // seconds
		want       error
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"it refuses a nonce within its life", []step{{1, 60, 0, nil}, {2, 60, 0, nil}, {1, 60, 59, errReplay}, {2, 60, 69, errReplay}}},
		{"it refuses what it has forgotten", []step{{1, 30, 0, nil}, {2, 70, 40, nil}, {1, 30, 40, errReplay}}},
		{"it refuses what it has forgotten when the clock is set back", []step{{1, 30, 0, nil}, {2, 70, 45, nil}, {1, 30, 10, errReplay}, {3, 39, 10, errReplay}}},
		{"it refuses new ones when it is full", []step{{1, 30, 0, nil}, {2, 30, 0, nil}, {3, 30, 0, nil}, {4, 30, 0, errFull}, {1, 30, 0, errReplay}, {4, 70, 40, nil}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := nonces{limit: 3}
			for i, s := range test.steps {
				if got := n.add([nonceSize]byte{s.nonce}, 1000*s.until, 1000*s.now); got != s.want {
					t.Errorf("step %d: got %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

func FuzzParseClaim(f *testing.F) {
	r := arrived("GET", "/hub?id=1", "hub.example")
	f.Add(newClaim(r, clock()).sign(r, key(1)))
	r.RemoteAddr = ""
	r.Header.Set("X-Forwarded-Proto", "https")
	f.Add(newClaim(r, clock()).sign(r, key(1)))
	r.RemoteAddr = strings.Repeat("x", maxClient)
	f.Add(newClaim(r, clock()).sign(r, key(1)))
	f.Add("")
	f.Add(strings.Repeat("A", 78))
	f.Fuzz(func(t *testing.T, text string) {
		c, signed, signature, err := parseClaim(text)
		if err != nil {
			return
		}
		if len(c.client) > maxClient || len(signature) != 32 {
			t.Fatalf("got %d bytes of address, %d of signature", len(c.client), len(signature))
		}
		again := base64.RawURLEncoding.EncodeToString(append(c.append(nil), signature...))
		if again != text || string(c.append(nil)) != string(signed) {
			t.Errorf("%q becomes %q", text, again)
		}
	})
}
