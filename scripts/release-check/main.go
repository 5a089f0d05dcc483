// Command release-check looks through the source tree for what must not be
// published: secrets, paths of somebody's machine, files that belong in
// .gitignore, versions that disagree, a README without its registry marker,
// examples that do not parse, a go.mod that replaces modules, a README that
// promises packages before there are any.
//
//	go run ./scripts/release-check [-tag TAG] [DIRECTORY]
//
// With -tag the tree also has to be ready to be released under that tag. It
// prints one line for each finding and exits 1 when there is one. A finding
// names the place and the rule, never the secret.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	tag := flag.String("tag", "", "the `tag` that the tree is to be released under")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := run(dir, *tag, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release-check:", err)
		os.Exit(1)
	}
}

// errFindings says that findings were printed.
var errFindings = errors.New("the tree must not be published as it is")

// finding is a place and what is wrong there.
type finding struct {
	path string
	line int // 0 where the finding is about the whole file
	text string
}

// run checks the tree at dir, and whether it can be released under the tag if there is one. It prints the findings to stdout.
func run(dir, tag string, stdout io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the tree: %w", err)
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	tree, err := openTree(root)
	if err != nil {
		return err
	}

	var found []finding
	for _, path := range tree.paths {
		found = append(found, checkName(tree, path)...)
		content, err := tree.read(path)
		if err != nil {
			return err
		}
		found = append(found, checkText(path, content)...)
		found = append(found, checkExample(path, content)...)
	}
	found = append(found, checkVersions(tree)...)
	found = append(found, checkModule(tree)...)
	found = append(found, checkPublished(tree, tag)...)

	for _, f := range found {
		place := f.path
		if f.line > 0 {
			place = fmt.Sprintf("%s:%d", f.path, f.line)
		}
		if _, err := fmt.Fprintf(stdout, "%s: %s\n", place, f.text); err != nil {
			return fmt.Errorf("print a finding: %w", err)
		}
	}
	if len(found) > 0 {
		return errFindings
	}
	_, err = fmt.Fprintf(stdout, "release-check: %d files, no findings\n", len(tree.paths))

	return err
}
