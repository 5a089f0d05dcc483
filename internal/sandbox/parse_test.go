package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParseBody compares with what Python's json module makes of a text: testdata/parse.jsonl was written with it.
func TestParseBody(t *testing.T) {
	t.Parallel()
	lines, err := os.ReadFile("testdata/parse.jsonl")
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		var c struct {
			Text     string  `json:"text"`
			Value    *string `json:"value"`
			Position int     `json:"position"`
			Message  string  `json:"message"`
		}
		require.NoError(t, json.Unmarshal(line, &c))
		value, err := parseBody([]byte(c.Text))
		if c.Value == nil {
			assert.Equal(t, &syntaxError{Position: c.Position, Message: c.Message}, err, c.Text)
			continue
		}
		require.NoError(t, err, c.Text)
		assert.Equal(t, *c.Value, string(text(value)), c.Text)
	}
}

func TestParseBodyLimits(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for name, c := range map[string]struct {
		body string
		err  error
	}{
		"longest integer":            {strings.Repeat("9", 4300), nil},
		"longest negative integer":   {"-" + strings.Repeat("9", 4300), nil},
		"integer too long":           {strings.Repeat("9", 4301), errUnreadable},
		"deepest":                    {nested(maxNesting), nil},
		"too deep":                   {nested(maxNesting + 1), errUnreadable},
		"surrogate as bytes":         {"\"\xed\xa0\x80\"", nil},
		"invalid UTF-8":              {"\"\xff\"", errUnreadable},
		"cut UTF-8":                  {"\"\xe2\x82\"", errUnreadable},
		"surrogate without its end":  {"\"\xed\xa0\"", errUnreadable},
		"UTF-16 of an odd length":    {"{\x00}\x00\x00", errUnreadable},
		"UTF-32 beyond Unicode":      {"\xff\xfe\x00\x00\x00\x00\x11\x00", errUnreadable},
		"long text with many digits": {"1." + strings.Repeat("9", 5000), nil},
	} {
		_, err := parseBody([]byte(c.body))
		assert.Equal(t, c.err, err, name)
	}
}

func TestParseBodyEncodings(t *testing.T) {
	t.Parallel()
	const body = `{"a":"é😀"}`
	encode := func(width int, big bool) []byte {
		var out []byte
		put := func(unit rune) {
			for i := range width {
				shift := 8 * i
				if big {
					shift = 8 * (width - 1 - i)
				}
				out = append(out, byte(unit>>shift)) //nolint:gosec // One byte of it is meant.
			}
		}
		for _, r := range body {
			if a, b := utf16.EncodeRune(r); width == 2 && r >= 0x10000 {
				put(a)
				put(b)
			} else {
				put(r)
			}
		}
		return out
	}
	for name, encoded := range map[string][]byte{
		"UTF-8":                 []byte(body),
		"UTF-8 with a mark":     []byte("\ufeff" + body),
		"UTF-16 LE":             encode(2, false),
		"UTF-16 BE":             encode(2, true),
		"UTF-16 LE with a mark": append([]byte("\xff\xfe"), encode(2, false)...),
		"UTF-16 BE with a mark": append([]byte("\xfe\xff"), encode(2, true)...),
		"UTF-32 LE":             encode(4, false),
		"UTF-32 BE":             encode(4, true),
		"UTF-32 LE with a mark": append([]byte("\xff\xfe\x00\x00"), encode(4, false)...),
		"UTF-32 BE with a mark": append([]byte("\x00\x00\xfe\xff"), encode(4, true)...),
	} {
		value, err := parseBody(encoded)
		require.NoError(t, err, name)
		assert.JSONEq(t, body, string(text(value)), name)
	}
}
