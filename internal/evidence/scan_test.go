package evidence_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

func TestMembersOfBrokenObjectsAreFoundAsFarAsTheyCanBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1,"b" : "x" , "c":{"d":[1,"]"]} }`: `a=1 b="x" c={"d":[1,"]"]} `,
		`{}`:                                     ``,
		`{"a":}`:                                 ``,
		`{"a":1 "b":2}`:                          ``,
		`{"a":tru e,"b":2}`:                      ``,
		`{"a":01x,"b":2}`:                        `a=01x b=2 `,
		`{,,"a":1,,"b":2,}`:                      `a=1 b=2 `,
		`{"a":1,"b`:                              `a=1 `,
		`{"a":1,"b":[{"c":1}`:                    `a=1 `,
		`{"a":1,"b":"\"`:                         `a=1 `,
		`{"a":1,"b":"x"`:                         `a=1 `,
		`{"a":1,"b":2`:                           `a=1 `,
		`{"a":1,b:2}`:                            `a=1 `,
		`{"a":1,"b"}`:                            `a=1 `,
		`{"a":1]`:                                ``,
		`{"a":[1}]}`:                             ``,
		`{"\u0061\n":"\\"}`:                      "a\n=\"\\\\\" ",
		`{"\ud800":1,"\x":2}`:                    `\ud800=1 \x=2 `,
		`["a"]`:                                  ``,
		``:                                       ``,
		` {"a":1} x`:                             `a=1 `,
		`{"a":"` + "\xff" + `"}`:                 "a=\"\xff\" ",
		`{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"b":1}`: `a=` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + ` b=1 `,
	} {
		var got strings.Builder
		for name, value := range evidence.Scan([]byte(text)) {
			fmt.Fprintf(&got, "%s=%s ", name, value.Of([]byte(text)))
		}
		assert.Equal(t, want, got.String(), text)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	text := []byte(` {"a":{"b":1}, "a":{"b": 2 }}`)
	outer := evidence.Find(text, "a")
	assert.Equal(t, `{"b": 2 }`, string(outer.Of(text)), "the last one counts")
	assert.Equal(t, "2", string(evidence.Find(outer.Of(text), "b").Shift(outer.Start).Of(text)))
	assert.Nil(t, evidence.Find(text, "b").Of(text))
}

func TestElementsOfBrokenArrays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[1, "a" ,[2],{}]`: `1|"a"|[2]|{}|`, `[]`: ``, `[1,,2,]`: `1|2|`, `[1 2]`: ``, `[1,2`: `1|`, `[1,"x`: `1|`, `[:]`: ``, `{}`: ``, ``: ``,
	} {
		var got strings.Builder
		for element := range evidence.Elements(jsontext.Value(text)) {
			got.WriteString(string(element) + "|")
		}
		assert.Equal(t, want, got.String(), text)
	}
}

func TestNestsDeeper(t *testing.T) {
	t.Parallel()
	for text, levels := range map[string]int{
		``: 0, `1`: 0, `"[{"`: 0, `{}`: 1, `[ [],[[]],{}]`: 3, `{"a":"[[["}`: 1, `[[`: 2, `["`: 1,
	} {
		assert.False(t, evidence.NestsDeeper([]byte(text), levels), text)
		if levels > 0 {
			assert.True(t, evidence.NestsDeeper([]byte(text), levels-1), text)
		}
	}
}

// FuzzScan compares the scanner with a complete JSON decoder.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\\\""}]}`, `{"a":1}{`, `{ "a" : [ ] , "b" : tru } `, `{"a":1,"\u0061":"\\"}`} {
		f.Add([]byte(seed))
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []string
		for name, value := range evidence.Scan(text) {
			got = append(got, string(name), string(value.Of(text)))
		}
		decoder := jsontext.NewDecoder(bytes.NewBuffer(bytes.Clone(text)), lenient...)
		if decoder.PeekKind() != '{' {
			return
		}
		whole, err := decoder.ReadValue()
		if err != nil {
			return // a broken object just must not panic
		}
		var want []string
		inner := jsontext.NewDecoder(bytes.NewBuffer(bytes.Clone(whole)), lenient...)
		_, err = inner.ReadToken()
		require.NoError(t, err)
		for inner.PeekKind() != '}' {
			name, err := inner.ReadValue()
			require.NoError(t, err)
			meant, err := jsontext.AppendUnquote(nil, name)
			if err != nil { // a broken escape stays as it is
				meant = name[1 : len(name)-1]
			}
			want = append(want, string(meant))
			value, err := inner.ReadValue()
			require.NoError(t, err)
			want = append(want, string(value))
		}
		require.Equal(t, want, got)
	})
}
