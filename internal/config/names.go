package config

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

// noteNames records which variables are set, by their names alone, and whether
// colours are unwanted.
func (l *loader) noteNames() {
	ours := map[string]bool{}
	for _, v := range Variables() {
		ours[v.Name] = true
		if l.isSet(v.Name) {
			l.settings.Set = append(l.settings.Set, v.Name)
		}
		if !l.isSet(v.Name) || l.isBroken(v.Name) {
			delete(l.settings.Values, v.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.environ)) {
		if strings.HasPrefix(name, "LOOPGRID_") && !ours[name] && l.isSet(name) {
			l.settings.Unread = append(l.settings.Unread, shown(name))
		}
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if l.environ[name] != "" || l.environ[strings.ToLower(name)] != "" && strings.HasSuffix(name, "PROXY") {
			l.settings.Network = append(l.settings.Network, name)
		}
	}
	// https://no-color.org: any text but none. Windows sets no TERM.
	term := l.environ["TERM"]
	l.settings.NoColor = l.environ["NO_COLOR"] != "" || term == "dumb" || term == "" && runtime.GOOS != "windows"
}

// isSet says whether a variable holds more than blanks and quotation marks.
func (l *loader) isSet(name string) bool { return clean(l.environ[name]).text != "" }
