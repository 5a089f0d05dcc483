package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// handmade is a ZIP that a test writes record by record, so that it can say in one place what it denies in another.
type handmade struct {
	front, behind, gap string // bytes before the first entry, behind the end, and before the directory
	files              []handmadeFile
	end64              bool // a zip64 end of the directory
	comment            string
}

// handmadeFile is an entry; the central fields are those of the directory where they differ.
type handmadeFile struct {
	name, text           string
	flags, method        uint16
	attributes           uint32
	extra, centralExtra  string
	centralName          string
	centralText          string // another text of which the directory has size and checksum
	centralMethod        *uint16
	centralFlags         *uint16
	comment              string
	descriptor           string // "32", "64", with "-" for one without a signature
	wrongDescriptor      bool
	large                bool // sizes are in zip64 extra fields
	shift                int  // of the header's place in the directory
	packedTail, behindIt string
}

func le16(v uint16) string { return string(binary.LittleEndian.AppendUint16(nil, v)) }

func le16of(v int) string {
	return le16(uint16(v)) //nolint:gosec // small
}

func le32(v int) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(v))) //nolint:gosec // small
}

func le64(v int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(v))) //nolint:gosec // small
}

func (h handmade) bytes() []byte {
	var out, directory strings.Builder
	out.WriteString(h.front)
	for _, f := range h.files {
		at := out.Len() + f.shift
		packed := f.text + f.packedTail
		crc := int(crc32.ChecksumIEEE([]byte(f.text)))
		sizes := le32(crc) + le32(len(packed)) + le32(len(f.text))
		extra := f.extra
		if f.large {
			sizes = le32(crc) + strings.Repeat("\xff", 8)
			extra += le16(extra64) + le16(16) + le64(len(f.text)) + le64(len(packed))
		}
		flags := f.flags
		local := sizes
		if f.descriptor != "" {
			flags |= flagDescriptor
			local = strings.Repeat("\x00", 12)
			if f.large {
				local = strings.Repeat("\x00", 4) + strings.Repeat("\xff", 8)
			}
		}
		out.WriteString(localSignature + le16(20) + le16(flags) + le16(f.method) + le32(0) + local + le16of(len(f.name)) + le16of(len(extra)) + f.name + extra + packed)
		if f.descriptor != "" {
			if f.wrongDescriptor {
				crc++
			}
			record := le32(crc) + le32(len(packed)) + le32(len(f.text))
			if strings.HasPrefix(f.descriptor, "64") {
				record = le32(crc) + le64(len(packed)) + le64(len(f.text))
			}
			if !strings.HasSuffix(f.descriptor, "-") {
				record = descriptorSignature + record
			}
			out.WriteString(record)
		}
		out.WriteString(f.behindIt)

		name, method := f.name, f.method
		if f.centralName != "" {
			name = f.centralName
		}
		if f.centralMethod != nil {
			method = *f.centralMethod
		}
		if f.centralFlags != nil {
			flags = *f.centralFlags
		}
		if f.centralText != "" {
			sizes = le32(int(crc32.ChecksumIEEE([]byte(f.centralText)))) + le32(len(f.centralText)) + le32(len(f.centralText))
		}
		extra += f.centralExtra
		directory.WriteString(centralSignature + le16(20) + le16(20) + le16(flags) + le16(method) + le32(0) + sizes +
			le16of(len(name)) + le16of(len(extra)) + le16of(len(f.comment)) + le32(0) + le32(int(f.attributes)) + le32(at) +
			name + extra + f.comment)
	}
	out.WriteString(h.gap)
	start, count := out.Len(), len(h.files)
	out.WriteString(directory.String())
	if h.end64 {
		at := out.Len()
		out.WriteString(end64Signature + le64(end64Size-12) + le16(45) + le16(45) + le32(0) + le32(0) + le64(count) + le64(count) + le64(directory.Len()) + le64(start))
		out.WriteString(locator64Signature + le32(0) + le64(at) + le32(1))
		out.WriteString(endSignature + le32(0) + strings.Repeat("\xff", 12) + le16(0))
	} else {
		out.WriteString(endSignature + le32(0) + le16of(count) + le16of(count) + le32(directory.Len()) + le32(start) + le16of(len(h.comment)) + h.comment)
	}
	out.WriteString(h.behind)
	return []byte(out.String())
}

// handmadeBundle is a whole bundle, with the first file changed.
func handmadeBundle(change func(*handmade, *handmadeFile)) []byte {
	var h handmade
	entries := bundleEntries(testDecision, false)
	for _, e := range entries {
		if e.text == attested {
			e.text = attestationOf(entries)
		}
		h.files = append(h.files, handmadeFile{name: e.name, text: e.text})
	}
	change(&h, &h.files[1]) // events.jsonl
	return h.bytes()
}

func TestOneReadingOfAZIP(t *testing.T) {
	t.Parallel()
	number := func(n uint16) *uint16 { return &n }
	other := handmadeBundle(func(h *handmade, _ *handmadeFile) {
		h.files[0].text = `{"decision_id":"dec_other","payloads_included":true}`
	})
	for name, test := range map[string]struct {
		change func(*handmade, *handmadeFile)
		want   string // empty: it is kept
	}{
		"plain":                        {func(*handmade, *handmadeFile) {}, ""},
		"descriptor":                   {func(_ *handmade, f *handmadeFile) { f.descriptor = "32" }, ""},
		"descriptor without signature": {func(_ *handmade, f *handmadeFile) { f.descriptor = "32-" }, ""},
		"large descriptor":             {func(_ *handmade, f *handmadeFile) { f.descriptor, f.large = "64", true }, ""},
		"large descriptor, unsigned":   {func(_ *handmade, f *handmadeFile) { f.descriptor = "64-" }, ""},
		"zip64 sizes":                  {func(_ *handmade, f *handmadeFile) { f.large = true }, ""},
		"zip64 end":                    {func(h *handmade, _ *handmadeFile) { h.end64 = true }, ""},
		"times":                        {func(_ *handmade, f *handmadeFile) { f.extra = le16(0x5455) + le16(5) + "\x01abcd" }, ""},
		"a regular file of Unix":       {func(_ *handmade, f *handmadeFile) { f.attributes = 0o100600 << 16 }, ""},
		"level of compression":         {func(_ *handmade, f *handmadeFile) { f.flags = 1 << 1 }, ""},

		"another ZIP before it":        {func(h *handmade, _ *handmadeFile) { h.front = string(other) }, "it starts at byte"},
		"bytes before it, counted":     {func(h *handmade, _ *handmadeFile) { h.front = "#!/bin/sh\n"; h.gap = "" }, "it starts at byte 10"},
		"bytes behind it":              {func(h *handmade, _ *handmadeFile) { h.behind = "x" }, "does not end with the end of a directory"},
		"another ZIP behind it":        {func(h *handmade, _ *handmadeFile) { h.behind = string(other) }, "not where it says"},
		"a comment":                    {func(h *handmade, _ *handmadeFile) { h.comment = "hello" }, "does not end with the end of a directory"},
		"bytes before the directory":   {func(h *handmade, _ *handmadeFile) { h.gap = "x" }, "belong to no entry"},
		"bytes between entries":        {func(_ *handmade, f *handmadeFile) { f.behindIt = "secret" }, "6 bytes behind it belong to no entry"},
		"another place":                {func(_ *handmade, f *handmadeFile) { f.shift = 1 }, "bytes behind it belong to no entry"},
		"another name":                 {func(_ *handmade, f *handmadeFile) { f.name = "events.jsonx"; f.centralName = "events.jsonl" }, "disagree"},
		"another size":                 {func(_ *handmade, f *handmadeFile) { f.centralText = f.text[1:] }, "disagree"},
		"another checksum":             {func(_ *handmade, f *handmadeFile) { f.centralText = strings.ToUpper(f.text) }, "disagree"},
		"another method":               {func(_ *handmade, f *handmadeFile) { f.method, f.centralMethod = deflated, number(stored) }, "disagree"},
		"other flags":                  {func(_ *handmade, f *handmadeFile) { f.flags, f.centralFlags = flagUTF8, number(0) }, "disagree"},
		"another descriptor":           {func(_ *handmade, f *handmadeFile) { f.descriptor, f.wrongDescriptor = "32", true }, "data descriptor and the directory disagree"},
		"no descriptor":                {func(_ *handmade, f *handmadeFile) { f.flags = flagDescriptor }, "not its data descriptor"},
		"a blank behind the name":      {func(_ *handmade, f *handmadeFile) { f.name += " " }, "not a plain relative path"},
		"a dot behind the name":        {func(_ *handmade, f *handmadeFile) { f.name += "." }, "not a plain relative path"},
		"an absolute name":             {func(_ *handmade, f *handmadeFile) { f.name = "/etc/passwd" }, "not a plain relative path"},
		"a name of Windows":            {func(_ *handmade, f *handmadeFile) { f.name = `policy\policy.json` }, "not a plain relative path"},
		"a drive":                      {func(_ *handmade, f *handmadeFile) { f.name = "C:x" }, "not a plain relative path"},
		"a device":                     {func(_ *handmade, f *handmadeFile) { f.name = "a/NUL.txt" }, "not a plain relative path"},
		"a way up":                     {func(_ *handmade, f *handmadeFile) { f.name = "a/../b" }, "not a plain relative path"},
		"the folder itself":            {func(_ *handmade, f *handmadeFile) { f.name = "./events.jsonl" }, "not a plain relative path"},
		"a folder":                     {func(_ *handmade, f *handmadeFile) { f.name = "events/"; f.text = "" }, "not a plain relative path"},
		"no name":                      {func(_ *handmade, f *handmadeFile) { f.name = "" }, "not a plain relative path"},
		"a name beyond ASCII":          {func(_ *handmade, f *handmadeFile) { f.name = "é" }, "not a plain relative path"},
		"a symbolic link":              {func(_ *handmade, f *handmadeFile) { f.attributes = 0o120777 << 16 }, "not a regular file"},
		"a device file":                {func(_ *handmade, f *handmadeFile) { f.attributes = 0o020666 << 16 }, "not a regular file"},
		"a folder by its attributes":   {func(_ *handmade, f *handmadeFile) { f.attributes = 1 << 4 }, "not a regular file"},
		"encrypted":                    {func(_ *handmade, f *handmadeFile) { f.flags = flagEncrypted }, "it is encrypted"},
		"encrypted in the entry alone": {func(_ *handmade, f *handmadeFile) { f.flags, f.centralFlags = flagEncrypted, number(0) }, "disagree"},
		"strongly encrypted":           {func(_ *handmade, f *handmadeFile) { f.flags = 1 << 6 }, "flags 0x40"},
		"another compression":          {func(_ *handmade, f *handmadeFile) { f.method = 93 }, "compression method 93"},
		"a comment of an entry":        {func(_ *handmade, f *handmadeFile) { f.comment = "secret" }, "its directory is broken"},
		"a second name":                {func(_ *handmade, f *handmadeFile) { f.extra = le16(0x7075) + le16(6) + "\x01abcde" }, "extra field 0x7075"},
		"a broken extra field":         {func(_ *handmade, f *handmadeFile) { f.extra = "abc" }, "extra field is broken"},
		"bytes behind the stored":      {func(_ *handmade, f *handmadeFile) { f.packedTail = "secret" }, "its sizes differ"},
		"sizes twice":                  {func(_ *handmade, f *handmadeFile) { f.centralExtra = le16(extra64) + le16(8) + le64(1) }, "its directory is broken"},
		"nothing deflated":             {func(_ *handmade, f *handmadeFile) { f.method = deflated }, "flate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := keep(t, t.TempDir(), false, handmadeBundle(test.change))
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNotWhole)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// Readers that search for the directory from the end find the second ZIP, readers that go from the front the first.
func TestAZIPBehindAnotherWithItsOwnOffsets(t *testing.T) {
	t.Parallel()
	whole := wholeBundle(t, testDecision, false)
	_, err := keep(t, t.TempDir(), false, append(bytes.Clone(whole), whole...))
	require.ErrorIs(t, err, ErrNotWhole)
	require.ErrorContains(t, err, "its directory is not where it says")
}

// A deflated entry may end before its packed bytes do: what is behind its end would be seen by nobody.
func TestBytesBehindADeflatedEntry(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	f, err := w.Create("a")
	require.NoError(t, err)
	_, err = io.WriteString(f, "text")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	reader, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	require.NoError(t, err)
	raw, err := reader.File[0].OpenRaw()
	require.NoError(t, err)
	deflate, err := io.ReadAll(raw)
	require.NoError(t, err)

	for tail, want := range map[string]string{"": "", "tail": "bytes behind its packed content belong to no entry"} {
		e := entry{
			name: "a", method: deflated, crc: crc32.ChecksumIEEE([]byte("text")),
			packed: int64(len(deflate) + len(tail)), unpacked: 4,
		}
		a := &archive{file: strings.NewReader(string(deflate) + tail), entries: []entry{e}}
		text, err := io.ReadAll(a.open(&a.entries[0]))
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, "text", string(text))
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
