package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"plain", 5, "plain"},
		{"plain!", 5, "plain…"},
		{"  a \t\r\n b\u00a0c  ", 10, "a b c"},
		{"a\x00b\x1b[31mc\u202ed\u2028e\ue000f", 20, "a b [31mc d e f"},
		{"\xff\xfea", 5, "a"},
		{"é日本", 2, "é日…"},
		{"ab cd", 3, "ab…"},
		{"ab    ", 2, "ab"},
		{"a", 0, "…"},
	} {
		assert.Equal(t, test.want, text.Clean(test.in, test.limit), "%q", test.in)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "é日", text.Clip("é日", 2))
	assert.Equal(t, "é…", text.Clip("é日", 1))
	assert.Equal(t, "a\n\uFFFD", text.Clip("a\n\xff", 3))
}

func FuzzClean(f *testing.F) {
	f.Add("a\u202e b\xff", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = min(max(limit, 0), 100)
		got := text.Clean(s, limit)
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, utf8.RuneCountInString(got), limit+1)
		assert.Equal(t, got, strings.TrimLeft(got, " "))
		assert.NotContains(t, got, "\n")
	})
}
