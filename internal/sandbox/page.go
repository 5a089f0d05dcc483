package sandbox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// pageHTML is the page for the person who tries the sandbox. It is a client of the API like any other.
//
//go:embed page.html
var pageHTML string

// home is GET /.
func (s *Server) home(*request) (*answer, error) {
	return &answer{status: http.StatusOK, contentType: "text/html; charset=utf-8", body: []byte(pageHTML), header: [][2]string{
		{"Content-Security-Policy", "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"script-src " + digest("script") + "; style-src " + digest("style")},
		{"Cache-Control", "no-store"},
		{"Referrer-Policy", "no-referrer"},
		{"X-Content-Type-Options", "nosniff"},
	}}, nil
}

// digest returns what allows the page's one script or style in its Content-Security-Policy, and no other.
func digest(tag string) string {
	_, after, _ := strings.Cut(pageHTML, "<"+tag+">")
	content, _, _ := strings.Cut(after, "</"+tag+">")
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// changes is GET /changes: a text that differs after each event and each start. The page polls it and reloads only when it differs.
func (s *Server) changes(*request) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &answer{status: http.StatusOK, contentType: "text/plain; charset=utf-8", body: fmt.Appendf(nil, "%s %d", s.keyID, s.seq)}, nil
}
