package config

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The largest files that settings name.
const (
	maxKeyFile = 4 << 10
	maxCAFile  = 4 << 20
)

// file is a file that a setting names.
type file struct {
	path  string // absolute
	shown string // the path as messages show it
}

// read reads the file. Whatever is at the path, it neither waits nor reads more
// than the limit.
func (f file) read(limit int64) ([]byte, fs.FileMode, *fault) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, 0, fileFault(f.shown, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, noFile(f.shown, info.Mode())
	}
	// A path can be exchanged for a FIFO after the look at it.
	opened, err := os.OpenFile(f.path, os.O_RDONLY|openWithoutWaiting, 0)
	if err != nil {
		return nil, 0, fileFault(f.shown, err)
	}
	defer func() { _ = opened.Close() }() // It was read only.
	if info, err = opened.Stat(); err != nil {
		return nil, 0, fileFault(f.shown, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, noFile(f.shown, info.Mode())
	}
	content, err := io.ReadAll(io.LimitReader(opened, limit+1))
	switch {
	case err != nil:
		return nil, 0, fileFault(f.shown, err)
	case int64(len(content)) > limit:
		return nil, 0, &fault{
			fmt.Sprintf("names %s, which is larger than %d KiB", f.shown, limit>>10),
			"Check that it names the right file.",
		}
	}

	return content, info.Mode(), nil
}

func noFile(shown string, mode fs.FileMode) *fault {
	kind := "not a regular file"
	switch {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}

	return &fault{"names " + shown + ", which is " + kind, "Set it to the path of a regular file."}
}

func fileFault(shown string, err error) *fault {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault{
			"names " + shown + ", which does not exist",
			"Check the path; in a container, check that the file is mounted there.",
		}
	case errors.Is(err, fs.ErrPermission):
		return &fault{"names " + shown + ", which this user may not read", "Give this user the right to read it."}
	}
	cause := err.Error()
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		cause = number.Error()
	}

	return &fault{"names " + shown + ", which cannot be read: " + cause, "Check the path and the file."}
}

// readKey reads a service key from its file, by the rules for a key in a variable.
func (f file) readKey() (key Secret, notes []fault, wrong *fault) {
	content, mode, wrong := f.read(maxKeyFile)
	if wrong != nil {
		return Secret{}, nil, wrong
	}
	value := clean(string(content))
	where := "names " + f.shown + ", which "
	switch {
	case value.text == "":
		return Secret{}, nil, &fault{where + "is empty", "Write the service key into the file."}
	case holdsExample(value.text):
		return Secret{}, nil, &fault{where + "still holds the text of an example", "Write the service key into the file."}
	case isPlaceholder(value.text):
		return Secret{}, nil, &fault{where + "holds a placeholder that nothing filled in", "Write the service key itself into the file."}
	}
	key, wrong = parseServiceKey(value.text)
	if wrong != nil {
		return Secret{}, nil, &fault{where + wrong.message, wrong.remedy}
	}
	if value.quoted {
		notes = append(notes, fault{where + "holds the key in quotation marks; they were taken off", "Write the key without them."})
	}
	const othersWrite = 0o022
	if modesCount && mode.Perm()&othersWrite != 0 {
		notes = append(notes, fault{where + "other users may write to", "chmod go-w the file."})
	}

	return key, notes, nil
}

// readCertificates reads a PEM file of certificates.
func (f file) readCertificates() ([]byte, *fault) {
	content, _, wrong := f.read(maxCAFile)
	if wrong != nil {
		return nil, wrong
	}
	if wrong = checkCertificates(f.shown, content); wrong != nil {
		return nil, wrong
	}

	return content, nil
}

// checkCertificates says why a file is no list of certificates in PEM; nil where
// it is one.
func checkCertificates(shown string, content []byte) *fault {
	const pemRemedy = "Use a PEM file: its certificates begin with -----BEGIN CERTIFICATE-----."
	where := "names " + shown + ", which "
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(content, []byte(mark)) {
			return &fault{where + "starts with a byte order mark, so its first certificate is not read", "Save it as UTF-8 without a byte order mark."}
		}
	}
	if _, err := x509.ParseCertificates(content); err == nil && len(content) > 0 {
		return &fault{where + "is in DER format, not in PEM", "Convert it: openssl x509 -inform der -in FILE -out FILE.pem"}
	}
	found := 0
	for rest := content; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return &fault{where + fmt.Sprintf("holds a certificate that cannot be read (number %d)", found+1), pemRemedy}
		}
		found++
	}
	if found == 0 {
		return &fault{where + "holds no certificate", pemRemedy}
	}

	return nil
}

// lookAtSystemCertificates warns of an SSL_CERT_FILE that Go passes over in
// silence.
func (l *loader) lookAtSystemCertificates(system string) {
	const name = "SSL_CERT_FILE"
	path := l.environ[name]
	if path == "" {
		return
	}
	if system == "darwin" || system == "windows" {
		l.warn(caFile, name+" is set, but is not read on this system.", "Set "+caFile+" to the file instead.")
		return
	}
	if value := clean(path); value.quoted {
		l.warn(caFile, name+" is in quotation marks, which are taken as a part of the path.", "Write the path without them.")
		return
	}
	_, wrong := file{path, shown(path)}.readCertificates()
	if wrong != nil {
		l.warn(caFile, name+" "+wrong.message+".", wrong.remedy)
	}
}
