package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// packWheel makes the wheel of a platform. The program is one of its scripts: an installer puts it as it is into bin (Windows:
// Scripts), and no Python runs when it starts. (PyPA: binary distribution format, core metadata 2.4.)
func (r *release) packWheel(t target) error {
	base := "loopgrid_mcp-" + r.version
	info := base + ".dist-info/"
	files, err := r.programs(t, base+".data/scripts/")
	if err != nil {
		return err
	}
	readme, err := r.source("README.md")
	if err != nil {
		return err
	}
	metadata, err := r.render("wheel/METADATA.tmpl", t, map[string]string{"README": absoluteLinks(string(readme), r.version)})
	if err != nil {
		return err
	}
	licences, err := r.licences(info + "licenses/")
	if err != nil {
		return err
	}
	wheel := "Wheel-Version: 1.0\nGenerator: loopgrid-mcp\nRoot-Is-Purelib: false\nTag: py3-none-" + strings.Join(t.wheelTags, "\nTag: py3-none-") + "\n"
	files = append(append(files, licences...),
		file{info + "METADATA", 0o644, metadata},
		file{info + "WHEEL", 0o644, []byte(wheel)},
	)
	var record strings.Builder
	for _, f := range files {
		digest := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(digest[:]), len(f.content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	content, err := zipped(append(files, file{info + "RECORD", 0o644, []byte(record.String())}))
	if err != nil {
		return err
	}
	return r.write(base+"-py3-none-"+strings.Join(t.wheelTags, ".")+".whl", content, 0o644)
}

// absoluteLinks has the links of the README lead to the repository, and its pictures come from there: on PyPI its neighbours are missing.
func absoluteLinks(readme, version string) string {
	readme = regexp.MustCompile(`(!\[[^\]]*)\]\(([\w.][\w./-]*)\)`).ReplaceAllString(readme, "$1]("+repository+"/raw/v"+version+"/$2)")
	return regexp.MustCompile(`\]\(([\w.][\w./-]*(?:#[\w-]*)?)\)`).ReplaceAllString(readme, "]("+repository+"/blob/v"+version+"/$1)")
}
