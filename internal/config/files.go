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
	"runtime"
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
	opened, err := Open(f.path)
	if err != nil {
		return nil, 0, f.fault(err)
	}
	defer func() { _ = opened.Close() }() // It was read only.
	info, err := opened.Stat()
	if err != nil {
		return nil, 0, f.fault(err)
	}
	content, err := io.ReadAll(io.LimitReader(opened, limit+1))
	switch {
	case err != nil:
		return nil, 0, f.fault(err)
	case int64(len(content)) > limit:
		return nil, 0, &fault{
			fmt.Sprintf("names %s, which is larger than %d KiB", f.shown, limit>>10),
			"Check that it names the right file.",
		}
	}

	return content, info.Mode(), nil
}

// Open opens a regular file for reading. Whatever is at the path, it never waits:
// opening a FIFO would, until somebody writes. Its error is an [*fs.PathError].
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info.Mode()); err != nil {
		return nil, err
	}
	// The path may name something else by now, so the open file decides.
	opened, err := os.OpenFile(path, os.O_RDONLY|openWithoutWaiting, 0) //nolint:gosec // The operator names it.
	if err != nil {
		return nil, err
	}
	info, err = opened.Stat()
	if err == nil {
		err = regular(path, info.Mode())
	}
	if err != nil {
		_ = opened.Close() // It was read only.

		return nil, err
	}

	return opened, nil
}

// regular returns an error that says what a file is instead of a regular one.
func regular(path string, mode fs.FileMode) error {
	kind := errIrregular
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = errDirectory
	case mode&fs.ModeNamedPipe != 0:
		kind = errPipe
	case mode&fs.ModeSocket != 0:
		kind = errSocket
	case mode&fs.ModeDevice != 0:
		kind = errDevice
	}

	return &fs.PathError{Op: "open", Path: path, Err: kind}
}

// irregular says what a file is instead of a regular one.
type irregular string

func (i irregular) Error() string { return "it is " + string(i) }

const (
	errIrregular irregular = "not a regular file"
	errDirectory irregular = "a directory"
	errPipe      irregular = "a named pipe"
	errSocket    irregular = "a socket"
	errDevice    irregular = "a device"
)

// fault says why the file cannot be read.
func (f file) fault(err error) *fault {
	kind, isIrregular := errors.AsType[irregular](err)
	switch {
	case isIrregular:
		return &fault{"names " + f.shown + ", which is " + string(kind), "Set it to the path of a regular file."}
	case errors.Is(err, fs.ErrNotExist):
		return &fault{
			"names " + f.shown + ", which does not exist",
			"Check the path; in a container, check that the file is mounted there.",
		}
	case errors.Is(err, fs.ErrPermission):
		return &fault{"names " + f.shown + ", which this user may not read", "Give this user the right to read it."}
	}
	cause := err
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		cause = path.Err // The path is named already.
	}

	return &fault{"names " + f.shown + ", which cannot be read: " + cause.Error(), "Check the path and the file."}
}

// readCertificates reads a PEM file of certificates. It parses them all, which
// takes milliseconds for those of a system, or, if none will be used, only the
// first few.
func (f file) readCertificates(used bool) ([]byte, *fault) {
	content, _, wrong := f.read(maxCAFile)
	if wrong != nil {
		return nil, wrong
	}
	if wrong = checkCertificates(f.shown, content, used); wrong != nil {
		return nil, wrong
	}

	return content, nil
}

// checkCertificates says why a file is no list of certificates in PEM; nil where
// it is one, or begins as one if not all of it is wanted.
func checkCertificates(shown string, content []byte, all bool) *fault {
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
	const few = 8
	for rest := content; all || found < few; {
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
	used := l.settings.BaseURL != nil && l.settings.BaseURL.Scheme == "https"
	if system == "darwin" || system == "windows" {
		if !used {
			return // No certificate is looked at.
		}
		l.warn(caFile, name+" is set, but is not read on this system.", "Set "+caFile+" to the file instead.")
		return
	}
	if value := clean(path); value.quoted {
		l.warn(caFile, name+" is in quotation marks, which are taken as a part of the path.", "Write the path without them.")
		return
	}
	_, wrong := file{path, shown(path)}.readCertificates(used)
	if wrong != nil {
		l.warn(caFile, name+" "+wrong.message+".", wrong.remedy)
	}
}

// readCAFile reads the certificates to trust, where a file is named.
func (l *loader) readCAFile(from file) {
	l.lookAtSystemCertificates(runtime.GOOS)
	if from.path == "" {
		return
	}
	l.keep(caFile, from.path)
	certificates, wrong := from.readCertificates(true)
	if wrong != nil {
		l.report(caFile, *wrong)
		return
	}
	l.settings.CACertificates = certificates
}
