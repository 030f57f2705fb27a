package forward

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkPOST is one POST of 160 bytes, directly and by way of another
// instance.
func BenchmarkPOST(b *testing.B) {
	body := strings.Repeat("x", 160)
	drain := func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }
	f := start(b, drain)
	direct := serve(b, drain)
	for _, way := range []struct{ name, url string }{{"direct", direct.URL}, {"forwarded", f.front.URL}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := direct.Client().Post(way.url+"/hub?id=1", "text/plain", strings.NewReader(body))
				if err != nil || res.StatusCode != http.StatusOK {
					b.Fatal(res, err)
				}
				res.Body.Close()
			}
		})
	}
}

func BenchmarkAccept(b *testing.B) {
	f := newForwarder(b, Options{Keys: keys(1, 2)})
	r := arrived("POST", "/hub?id=1", "hub.example")
	b.ReportAllocs()
	for b.Loop() {
		r.Header[header] = []string{newClaim(r, f.now()).sign(r, key(1))}
		if _, _, err := f.Accept(r); err != nil {
			b.Fatal(err)
		}
	}
}
