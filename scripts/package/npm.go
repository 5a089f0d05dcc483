package main

import "strings"

// packNPM makes the npm package that users name, and one for each platform that carries the binary. The first depends on all others
// as far as the system fits, so that nothing has to run at installation.
func (r *release) packNPM() error {
	manifest, err := r.render("npm/package.json.tmpl", target{}, nil)
	if err != nil {
		return err
	}
	files := []file{{"package/package.json", 0o644, manifest}}
	for _, script := range []file{{"bin/loopgrid-mcp.js", 0o755, nil}, {"bin/loopgrid-mcp-doctor.js", 0o755, nil}, {"run.js", 0o644, nil}} {
		content, err := r.source("packaging/npm/" + strings.TrimPrefix(script.name, "bin/"))
		if err != nil {
			return err
		}
		files = append(files, file{"package/" + script.name, script.mode, content})
	}
	documents, err := r.sources("package/", "README.md", "LICENSE")
	if err != nil {
		return err
	}
	if err := r.writeNPM(name, append(files, documents...)); err != nil {
		return err
	}
	for _, t := range platforms() {
		manifest, err := r.render("npm/platform.json.tmpl", t, nil)
		if err != nil {
			return err
		}
		binary, err := r.binary(t)
		if err != nil {
			return err
		}
		terms, err := r.terms("package/")
		if err != nil {
			return err
		}
		bill, err := r.bill(t, "package/")
		if err != nil {
			return err
		}
		files := append([]file{{"package/package.json", 0o644, manifest}, {"package/bin/" + t.program(), 0o755, binary}, bill}, terms...)
		if err := r.writeNPM(t.NPMName(), files); err != nil {
			return err
		}
	}
	return nil
}

// writeNPM writes a package under the name that npm pack gives it.
func (r *release) writeNPM(name string, files []file) error {
	content, err := tarred(files)
	if err != nil {
		return err
	}
	return r.write(strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-")+"-"+r.version+".tgz", content, 0o644)
}
