package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/switchboard-hub/switchboard/web/vendor"
)

//go:embed assets
var assets embed.FS

// policy is the Content-Security-Policy of every answer. In connect-src, 'self'
// covers ws: and wss: of the same origin (CSP Level 3 section 6.7.2.8). The page
// never writes markup, so no script may either: trusted-types 'none' turns an
// assignment to innerHTML into an error.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// file is one body the handler serves. Fixed after it was made.
type file struct {
	contentType string
	etag        string
	body        []byte
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{
		contentType: contentType(name),
		etag:        `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`,
		body:        body,
	}
}

// contentType knows the few kinds of files there are. The table of the machine
// (package mime) is not asked: it differs from one to the next.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".json":
		return "application/json"
	case ".svg":
		return "image/svg+xml"
	default:
		return "text/plain; charset=utf-8"
	}
}

// Handler serves the dashboard at the root of its mux (see the package comment
// for the paths).
func Handler(o Options) http.Handler {
	files := map[string]file{
		"/assets/config.json": newFile("config.json", o.encode()),
	}
	addAll(files, "/", assets)
	addAll(files, "/vendor/", vendor.Files())
	files["/"] = files["/assets/index.html"]
	delete(files, "/assets/index.html")
	return handler{files: files}
}

// addAll adds all files of fsys, with their paths behind prefix.
func addAll(files map[string]file, prefix string, fsys embed.FS) {
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fsys.ReadFile(name)
		if err != nil {
			return err
		}
		files[prefix+name] = newFile(name, body)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("ui: read embedded files: %v", err)) // cannot happen: they are part of the binary
	}
}

// handler serves a fixed set of files by exact path.
type handler struct {
	files map[string]file
}

// ServeHTTP implements [http.Handler].
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")

	f, ok := h.files[r.URL.Path]
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	header.Set("Content-Type", f.contentType)
	header.Set("Cache-Control", "no-cache") // keep, but ask with the ETag before each use
	header.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
