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
	metadata, err := r.metadata()
	if err != nil {
		return err
	}
	terms, err := r.terms(info + "licenses/")
	if err != nil {
		return err
	}
	bill, err := r.bill(t, info+"sboms/")
	if err != nil {
		return err
	}
	wheel := "Wheel-Version: 1.0\nGenerator: loopgrid-mcp\nRoot-Is-Purelib: false\nTag: py3-none-" + strings.Join(t.wheelTags, "\nTag: py3-none-") + "\n"
	files = append(append(files, terms...),
		bill,
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

// packSource makes the source distribution. It builds nothing: without one, pip and uv would quietly install the Python bridge 0.1.0 on
// platforms that have no wheel, so its build says in one line what there is. (PyPA: source distribution format, PEP 517.)
func (r *release) packSource() error {
	base := "loopgrid_mcp-" + r.version
	metadata, err := r.metadata()
	if err != nil {
		return err
	}
	files := []file{{base + "/PKG-INFO", 0o644, metadata}}
	for _, name := range []string{"pyproject.toml", "no_wheel.py"} {
		content, err := r.render("sdist/"+name+".tmpl", target{}, nil)
		if err != nil {
			return err
		}
		files = append(files, file{base + "/" + name, 0o644, content})
	}
	terms, err := r.terms(base + "/")
	if err != nil {
		return err
	}
	content, err := tarred(append(files, terms...))
	if err != nil {
		return err
	}
	return r.write(base+".tar.gz", content, 0o644)
}

// metadata is what PyPI shows of the project.
func (r *release) metadata() ([]byte, error) {
	readme, err := r.source("README.md")
	if err != nil {
		return nil, err
	}
	return r.render("wheel/METADATA.tmpl", target{}, map[string]string{"README": absoluteLinks(string(readme), r.version)})
}

// absoluteLinks has the links of the README lead to the repository, and its pictures come from there: on PyPI its neighbours are missing.
func absoluteLinks(readme, version string) string {
	readme = regexp.MustCompile(`(!\[[^\]]*)\]\(([\w.][\w./-]*)\)`).ReplaceAllString(readme, "$1]("+repository+"/raw/v"+version+"/$2)")
	return regexp.MustCompile(`\]\(([\w.][\w./-]*(?:#[\w-]*)?)\)`).ReplaceAllString(readme, "]("+repository+"/blob/v"+version+"/$1)")
}
