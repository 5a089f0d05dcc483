package bundle

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
)

// How much of a ZIP is believed. LoopGrid's own have 11 to 14 entries.
const (
	maxEntries = 10_000
	// maxListing bounds the central directory, which is read into memory.
	maxListing = 2 << 20
	// unpackedPerByte bounds what the entries may unpack to, as a multiple of the largest bundle that is kept: JSON packs to a tenth at
	// best, a bomb to a thousandth.
	unpackedPerByte = 8
)

// The records of a ZIP: PKWARE's APPNOTE.TXT, sections 4.3.7 to 4.3.16.
const (
	localSignature      = "PK\x03\x04"
	descriptorSignature = "PK\x07\x08"
	centralSignature    = "PK\x01\x02"
	endSignature        = "PK\x05\x06"
	end64Signature      = "PK\x06\x06"
	locator64Signature  = "PK\x06\x07"

	localSize     = 30
	centralSize   = 46
	endSize       = 22
	end64Size     = 56
	locator64Size = 20

	stored   = 0
	deflated = 8

	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11
	// allowedFlags are those besides that change nothing about how an entry is read: the level of compression.
	allowedFlags = 1<<1 | 1<<2 | flagDescriptor | flagUTF8

	extra64 = 0x0001
)

// entry is one file of a ZIP, as its two headers agree on it.
type entry struct {
	name             string
	flags, method    uint16
	crc              uint32
	packed, unpacked int64
	header, data     int64  // where its local header and its content start
	sum              string // SHA-256 of its content in lower-case hex, once it is proven
}

// archive is a ZIP that every reader reads in the same way: each of its bytes belongs to one entry or to the directory.
type archive struct {
	file    io.ReaderAt
	entries []entry // in the order in which they lie in the file
}

// openArchive reads the structure of the ZIP of that size, and refuses what readers could read differently: bytes that belong to no
// entry, headers that disagree, names that mean different files on different systems, anything but plain files. It unpacks nothing.
func openArchive(file io.ReaderAt, size int64) (*archive, error) {
	listing, at, count, err := readDirectory(file, size)
	if err != nil {
		return nil, err
	}
	a := &archive{file: file, entries: make([]entry, 0, count)}
	seen := make(map[string]bool, count)
	for len(listing) > 0 {
		e, rest, err := centralEntry(listing)
		if err != nil {
			return nil, err
		}
		// In lower case, because one of two such files would be lost where the bundle is unpacked on Windows or macOS.
		if key := strings.ToLower(e.name); seen[key] {
			return nil, fmt.Errorf("it holds two entries %.80q", e.name)
		} else {
			seen[key] = true
		}
		a.entries = append(a.entries, e)
		listing = rest
	}
	if len(a.entries) != count {
		return nil, fmt.Errorf("its directory lists %d entries and claims %d", len(a.entries), count)
	}
	return a, a.checkTiling(at)
}

// readDirectory returns the central directory, where it starts and how many entries it claims.
func readDirectory(file io.ReaderAt, size int64) (listing []byte, at int64, count int, err error) {
	errNoZip := errors.New("it is not a valid zip file: it does not end with the end of a directory")
	if size < endSize {
		return nil, 0, 0, errNoZip
	}
	tail := make([]byte, min(size, endSize+locator64Size+end64Size))
	if err := readAt(file, tail, size-int64(len(tail))); err != nil {
		return nil, 0, 0, err
	}
	end := tail[len(tail)-endSize:]
	if string(end[:4]) != endSignature || binary.LittleEndian.Uint16(end[20:]) != 0 {
		return nil, 0, 0, errNoZip
	}
	stop := size - endSize
	entries := uint64(binary.LittleEndian.Uint16(end[10:]))
	length := uint64(binary.LittleEndian.Uint32(end[12:]))
	start := uint64(binary.LittleEndian.Uint32(end[16:]))
	disks := !zeros(end[4:8]) || binary.LittleEndian.Uint16(end[8:]) != binary.LittleEndian.Uint16(end[10:])
	if before := tail[:len(tail)-endSize]; len(before) == locator64Size+end64Size && string(before[end64Size:end64Size+4]) == locator64Signature {
		stop -= locator64Size + end64Size
		large, err := readEnd64(before, stop)
		if err != nil {
			return nil, 0, 0, err
		}
		if !agrees(entries, large.entries, math.MaxUint16) || !agrees(length, large.length, math.MaxUint32) || !agrees(start, large.start, math.MaxUint32) {
			return nil, 0, 0, errors.New("its two ends of the directory disagree")
		}
		entries, length, start = large.entries, large.length, large.start
	}
	switch {
	case disks:
		return nil, 0, 0, errors.New("it is a part of a zip file on several disks")
	case length > maxListing:
		return nil, 0, 0, fmt.Errorf("its list of entries is longer than %d bytes", maxListing)
	case entries > maxEntries:
		return nil, 0, 0, fmt.Errorf("it holds %d entries, more than %d", entries, maxEntries)
	case start > uint64(stop) || start+length != uint64(stop): //nolint:gosec // not negative: size is at least that of the records
		return nil, 0, 0, errors.New("it is not a valid zip file: its directory is not where it says")
	}
	listing = make([]byte, length)
	return listing, int64(start), int(entries), readAt(file, listing, int64(start)) //nolint:gosec // bounded above
}

type end64 struct{ entries, length, start uint64 }

// readEnd64 reads the zip64 end of the directory with the locator behind it; at is where it lies.
func readEnd64(record []byte, at int64) (end64, error) {
	locator := record[end64Size:]
	if string(record[:4]) != end64Signature || binary.LittleEndian.Uint64(record[4:]) != end64Size-12 ||
		binary.LittleEndian.Uint64(locator[8:]) != uint64(at) || //nolint:gosec // not negative
		!zeros(locator[4:8]) || binary.LittleEndian.Uint32(locator[16:]) > 1 || !zeros(record[16:24]) ||
		binary.LittleEndian.Uint64(record[24:]) != binary.LittleEndian.Uint64(record[32:]) {
		return end64{}, errors.New("it is not a valid zip file: its zip64 records are broken")
	}
	return end64{binary.LittleEndian.Uint64(record[32:]), binary.LittleEndian.Uint64(record[40:]), binary.LittleEndian.Uint64(record[48:])}, nil
}

// agrees reports whether a small field is its large one, or says that the large one has the value.
func agrees(small, large, elsewhere uint64) bool { return small == large || small == elsewhere }

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// centralEntry reads the first header of the directory and returns what follows it.
func centralEntry(listing []byte) (e entry, rest []byte, err error) {
	broken := errors.New("it is not a valid zip file: its directory is broken")
	if len(listing) < centralSize || string(listing[:4]) != centralSignature {
		return e, nil, broken
	}
	head := listing[:centralSize]
	name, extra, comment := fieldLengths(head[28:])
	if len(listing) < centralSize+name+extra+comment {
		return e, nil, broken
	}
	fields := listing[centralSize:]
	e = entry{name: string(fields[:name]), flags: binary.LittleEndian.Uint16(head[8:]), method: binary.LittleEndian.Uint16(head[10:]), crc: binary.LittleEndian.Uint32(head[16:])}
	large, err := readExtra(fields[name : name+extra])
	if err != nil {
		return e, nil, fmt.Errorf("entry %.80q: %w", e.name, err)
	}
	e.unpacked = large.or(head[24:])
	e.packed = large.or(head[20:])
	e.header = large.or(head[42:])
	if comment != 0 || !zeros(head[34:36]) || large.err || len(large.values) != 0 {
		return e, nil, broken
	}
	if err := checkKind(&e, binary.LittleEndian.Uint32(head[38:])); err != nil {
		return e, nil, fmt.Errorf("entry %.80q: %w", e.name, err)
	}
	return e, fields[name+extra+comment:], nil
}

// checkKind refuses entries that are not plain files under a plain name.
func checkKind(e *entry, attributes uint32) error {
	const (
		dosDirectory = 1 << 4
		typeShift    = 28 // of Unix: the upper four bits of the mode, which is in the upper half
		regular      = 0o10
	)
	switch kind := attributes >> typeShift; {
	case e.flags&flagEncrypted != 0:
		return errors.New("it is encrypted")
	case e.flags&^allowedFlags != 0:
		return fmt.Errorf("it has flags %#x that change how it is read", e.flags&^allowedFlags)
	case e.method != stored && e.method != deflated:
		return fmt.Errorf("its compression method %d is neither stored nor deflated", e.method)
	case e.method == stored && e.packed != e.unpacked:
		return errors.New("it is stored, but its sizes differ")
	case kind != 0 && kind != regular, attributes&dosDirectory != 0:
		return errors.New("it is not a regular file")
	}
	return checkName(e.name)
}

// checkName refuses names that mean another file, or none, on some system.
func checkName(name string) error {
	for segment := range strings.SplitSeq(name, "/") {
		plain := strings.Trim(segment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
		stem, _, _ := strings.Cut(strings.ToLower(segment), ".")
		device := slices.Contains([]string{"con", "prn", "aux", "nul"}, stem) ||
			len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && '0' <= stem[3] && stem[3] <= '9'
		if !plain || device || segment == "" || strings.HasSuffix(segment, ".") {
			return errors.New("its name is not a plain relative path")
		}
	}
	return nil
}

// extraSizes are the values of a zip64 extra field, in their order.
type extraSizes struct {
	values []byte
	err    bool // a value was asked for that is not there
}

// or returns the 32-bit field, or the next value of the extra field where the 32-bit one says that it is there.
func (s *extraSizes) or(field []byte) int64 {
	if value := binary.LittleEndian.Uint32(field); value != math.MaxUint32 {
		return int64(value)
	}
	if len(s.values) < 8 {
		s.err = true
		return 0
	}
	value := binary.LittleEndian.Uint64(s.values)
	s.values = s.values[8:]
	if value > math.MaxInt64 {
		s.err = true
		return 0
	}
	return int64(value)
}

// readExtra returns the zip64 sizes of an extra field. Times and owners change nothing about what is read; anything else may: there
// is a field that holds another name.
func readExtra(extra []byte) (extraSizes, error) {
	var found extraSizes
	for len(extra) > 0 {
		if len(extra) < 4 || len(extra) < 4+int(binary.LittleEndian.Uint16(extra[2:])) {
			return found, errors.New("its extra field is broken")
		}
		id, size := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		switch id {
		case extra64:
			if found.values != nil {
				return found, errors.New("its sizes are given twice")
			}
			found.values = extra[4 : 4+size]
		case 0x000a, 0x5455, 0x5855, 0x7855, 0x7875: // times of NTFS and Unix, owners
		default:
			return found, fmt.Errorf("it has an extra field %#04x that may change how it is read", id)
		}
		extra = extra[4+size:]
	}
	return found, nil
}

func fieldLengths(b []byte) (name, extra, comment int) {
	return int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:])), int(binary.LittleEndian.Uint16(b[4:]))
}

// checkTiling reads the local headers and checks that they agree with the directory, and that the entries fill the file from its
// first byte to the directory.
func (a *archive) checkTiling(directory int64) error {
	slices.SortStableFunc(a.entries, func(x, y entry) int { return cmp.Compare(x.header, y.header) })
	at := int64(0)
	for i := range a.entries {
		e := &a.entries[i]
		if e.header != at {
			return fmt.Errorf("entry %.80q: it starts at byte %d, and the one before it ends at byte %d", e.name, e.header, at)
		}
		next := directory
		if i+1 < len(a.entries) {
			next = a.entries[i+1].header
		}
		if err := a.readLocal(e, next); err != nil {
			return fmt.Errorf("entry %.80q: %w", e.name, err)
		}
		at = next
	}
	if at != directory {
		return errors.New("it holds bytes that belong to no entry")
	}
	return nil
}

// readLocal compares the local header of e with the directory. The next entry, or the directory, starts at next.
func (a *archive) readLocal(e *entry, next int64) error {
	disagree := errors.New("its local header and the directory disagree")
	head := make([]byte, localSize)
	if next-e.header < localSize || readAt(a.file, head, e.header) != nil || string(head[:4]) != localSignature {
		return errors.New("it has no local header where the directory says")
	}
	name, extra, _ := fieldLengths(append(head[26:30:30], 0, 0))
	e.data = e.header + localSize + int64(name) + int64(extra)
	if next-e.data < e.packed {
		return errors.New("it reaches into what follows it")
	}
	fields := make([]byte, name+extra)
	if err := readAt(a.file, fields, e.header+localSize); err != nil {
		return err
	}
	large, err := readExtra(fields[name:])
	if err != nil {
		return err
	}
	descriptor := e.flags&flagDescriptor != 0
	same := func(local, central int64) bool { return local == central || descriptor && local == 0 }
	unpacked := large.or(head[22:])
	packed := large.or(head[18:])
	switch {
	case string(fields[:name]) != e.name, binary.LittleEndian.Uint16(head[6:]) != e.flags, binary.LittleEndian.Uint16(head[8:]) != e.method,
		large.err, !same(int64(binary.LittleEndian.Uint32(head[14:])), int64(e.crc)), !same(packed, e.packed), !same(unpacked, e.unpacked):
		return disagree
	}
	rest := next - e.data - e.packed
	if !descriptor {
		if rest != 0 {
			return fmt.Errorf("%d bytes behind it belong to no entry", rest)
		}
		return nil
	}
	return a.readDescriptor(e, rest)
}

// readDescriptor checks the record of that size behind the content of e: a signature or none, the checksum, and the sizes in 4 or 8
// bytes each.
func (a *archive) readDescriptor(e *entry, size int64) error {
	switch size {
	case 12, 16, 20, 24:
	default:
		return errors.New("what follows it is not its data descriptor")
	}
	record := make([]byte, size)
	if err := readAt(a.file, record, e.data+e.packed); err != nil {
		return err
	}
	if size == 16 || size == 24 {
		if string(record[:4]) != descriptorSignature {
			return errors.New("what follows it is not its data descriptor")
		}
		record = record[4:]
	}
	var packed, unpacked uint64
	if len(record) == 12 {
		packed, unpacked = uint64(binary.LittleEndian.Uint32(record[4:])), uint64(binary.LittleEndian.Uint32(record[8:]))
	} else {
		packed, unpacked = binary.LittleEndian.Uint64(record[4:]), binary.LittleEndian.Uint64(record[12:])
	}
	if binary.LittleEndian.Uint32(record) != e.crc || packed != uint64(e.packed) || unpacked != uint64(e.unpacked) { //nolint:gosec // not negative
		return errors.New("its data descriptor and the directory disagree")
	}
	return nil
}

// prove unpacks every entry, checks its size and checksum and notes its SHA-256. It keeps nothing else, and refuses more than limit bytes in all.
func (a *archive) prove(ctx context.Context, limit int64) error {
	left := limit
	for i := range a.entries {
		e := &a.entries[i]
		if e.unpacked > left {
			return fmt.Errorf("it unpacks to more than %d bytes", limit)
		}
		left -= e.unpacked
	}
	for i := range a.entries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("check the evidence bundle: %w", err)
		}
		e, sum := &a.entries[i], sha256.New()
		if _, err := io.Copy(sum, &contextReader{ctx, a.open(e)}); err != nil {
			return fmt.Errorf("entry %.80q: %w", e.name, err)
		}
		e.sum = hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// find returns the entry of exactly that name, nil if there is none.
func (a *archive) find(name string) *entry {
	for i := range a.entries {
		if a.entries[i].name == name {
			return &a.entries[i]
		}
	}
	return nil
}

// open returns the content of an entry. Reading ends with an error instead of [io.EOF] where its size, its checksum or its packed form
// is not what the headers say.
func (a *archive) open(e *entry) io.Reader {
	packed := bufio.NewReader(io.NewSectionReader(a.file, e.data, e.packed))
	content := &contentReader{entry: e, packed: packed, content: packed, sum: crc32.NewIEEE()}
	if e.method == deflated {
		content.content = flate.NewReader(packed)
	}
	return content
}

type contentReader struct {
	entry   *entry
	packed  *bufio.Reader
	content io.Reader
	read    int64
	sum     interface {
		io.Writer
		Sum32() uint32
	}
}

func (r *contentReader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)
	_, _ = r.sum.Write(p[:n]) // a hash takes everything
	r.read += int64(n)
	switch {
	case r.read > r.entry.unpacked:
		return n, fmt.Errorf("it unpacks to more than the %d bytes that the directory says", r.entry.unpacked)
	case !errors.Is(err, io.EOF):
		return n, err
	case r.read != r.entry.unpacked:
		return n, fmt.Errorf("it unpacks to %d bytes, and the directory says %d", r.read, r.entry.unpacked)
	case r.sum.Sum32() != r.entry.crc:
		return n, errors.New("its checksum is wrong")
	}
	if _, behind := r.packed.ReadByte(); behind == nil {
		return n, errors.New("bytes behind its packed content belong to no entry")
	}
	return n, err
}

// contextReader ends with the error of ctx.
type contextReader struct {
	ctx context.Context //nolint:containedctx // of one io.Copy
	io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// readAt fills p from offset on. A file that is too short is an invalid ZIP.
func readAt(file io.ReaderAt, p []byte, offset int64) error {
	n, err := file.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) || err == nil {
		return errors.New("it is not a valid zip file: it is cut short")
	}
	return err
}
