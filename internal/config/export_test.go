package config

import "net/url"

// Place is what the choice of the evidence directory depends on, for tests.
type Place struct {
	WorkingDir, DataDir string
	SystemDirs          []string
	HomeOf              func(string) (string, error)
	CanCreateIn         func(string) bool
}

// EvidenceDirAt applies the rules at a place. The texts are those of a problem,
// empty where there is none.
func EvidenceDirAt(p Place, given string) (dir EvidenceDir, message, remedy string) {
	dir, wrong := place{
		workingDir: p.WorkingDir, dataDir: p.DataDir, systemDirs: p.SystemDirs,
		homeOf: p.HomeOf, canCreateIn: p.CanCreateIn,
	}.evidenceDir(given)
	if wrong != nil {
		return dir, wrong.message, wrong.remedy
	}

	return dir, "", ""
}

// CanCreateIn asks the system whether files may be created in a directory.
func CanCreateIn(dir string) bool { return canCreateIn(dir) }

// SystemCertificateWarnings looks at SSL_CERT_FILE as on the named system.
func SystemCertificateWarnings(system, path string) []string {
	l := &loader{environ: map[string]string{"SSL_CERT_FILE": path}}
	l.settings.BaseURL, _ = url.Parse("https://example.com")
	l.lookAtSystemCertificates(system)
	var messages []string
	for _, w := range l.settings.Warnings {
		messages = append(messages, w.Message)
	}

	return messages
}
