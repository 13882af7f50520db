// Package page is the built-in web page: static files that a browser runs as they
// are, without a build step, and that load nothing from elsewhere. It knows how to
// serve them and nothing about the API that they call.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed index.html style.css icon.svg *.js
var embedded embed.FS

// policy lets the page run its own files and nothing else. With trusted types
// forbidden, a string cannot become markup: assigning innerHTML throws, so what an
// agent wrote can only ever be text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// File is one file of the page.
type File struct {
	Path string // a pattern of http.ServeMux
	name string
	etag string
	body []byte
}

// Files returns all files; the page itself is at "/".
func Files() []*File {
	entries, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // what is embedded can be read
	}
	out := make([]*File, 0, len(entries))
	for _, e := range entries {
		body, err := embedded.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		f := &File{Path: "/page/" + e.Name(), name: e.Name(), etag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body}
		if e.Name() == "index.html" {
			f.Path = "/{$}"
		}
		out = append(out, f)
	}
	return out
}

// contentType does not ask the system, whose tables differ.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	}
	return "image/svg+xml"
}

// ServeHTTP sends the file, or says that the browser has it already.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", contentType(f.name))
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache") // asked for each time, so that an upgrade is seen at once
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.body))
}
