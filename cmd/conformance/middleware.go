package main

import (
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"
)

// allowOrigin lets pages of every origin read the answer, with credentials. No
// server but a test's may do that.
func allowOrigin(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	if method := r.Header.Get("Access-Control-Request-Method"); method != "" {
		h.Set("Access-Control-Allow-Methods", method)
	}
	if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
		h.Set("Access-Control-Allow-Headers", headers)
	}
}

// staticFiles are the files below a directory.
type staticFiles struct{ root *os.Root }

// serve answers with the file that the path names, if there is one. The page
// of a directory is its index.html.
func (s *staticFiles) serve(w http.ResponseWriter, r *http.Request) (served bool) {
	if s == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if strings.HasSuffix(r.URL.Path, "/") {
		name = path.Join(name, "index.html")
	}
	if !fs.ValidPath(name) {
		return false
	}
	f, err := s.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	http.ServeContent(w, r, info.Name(), info.ModTime(), f)
	return true
}

// cookieLife is how far in the past the expired cookie has expired.
const cookieLife = time.Hour

// setCookies adds the cookies that clients must keep, and one that they must not.
func setCookies(w http.ResponseWriter, r *http.Request, more ...*http.Cookie) {
	cookies := append([]*http.Cookie{
		{Name: "testCookie", Value: "testValue"},
		{Name: "testCookie2", Value: "testValue2"},
		{Name: "expiredCookie", Value: "expiredValue", Expires: time.Now().Add(-cookieLife)},
	}, more...)
	for _, c := range cookies {
		c.Path = "/"
		if r.TLS != nil { // browsers keep cookies of another site only so
			c.SameSite, c.Secure, c.Partitioned = http.SameSiteNoneMode, true, true
		}
		http.SetCookie(w, c)
	}
}

// writeText answers with exactly this text.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client may have gone
}
