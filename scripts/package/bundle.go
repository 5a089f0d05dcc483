package main

// bundleName is the name of the MCP bundle's file.
func (r *release) bundleName(t target) string { return r.label(t) + ".mcpb" }

// packBundle makes the MCP bundle of a system, and returns its SHA-256.
func (r *release) packBundle(t target) (string, error) {
	manifest, err := r.render("mcpb/manifest.json.tmpl", t, nil)
	if err != nil {
		return "", err
	}
	binary, err := r.binary(t)
	if err != nil {
		return "", err
	}
	readme, err := r.sources("", "README.md")
	if err != nil {
		return "", err
	}
	terms, err := r.terms("")
	if err != nil {
		return "", err
	}
	bill, err := r.bill(t, "")
	if err != nil {
		return "", err
	}
	files := append([]file{{"manifest.json", 0o644, manifest}, {"server/" + t.program(), 0o755, binary}, bill}, readme...)
	content, err := zipped(append(files, terms...))
	if err != nil {
		return "", err
	}
	return sum(content), r.write(r.bundleName(t), content, 0o644)
}
