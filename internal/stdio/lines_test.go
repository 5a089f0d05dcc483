package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLinesAreCutWhateverThePartsTheyComeIn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", readBuffer/5)
	input := "one\r\n\n  two \t\n" + long + "\n" + long + "three"
	want := []string{"one", "", "two", long, long + "three"}
	for name, in := range map[string]io.Reader{
		"at once":        strings.NewReader(input),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(input)),
		"halves":         iotest.HalfReader(strings.NewReader(input)),
		"error with EOF": iotest.DataErrReader(strings.NewReader(input)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLineReader(in)
			var got []string
			for {
				line, tooLong, err := r.next()
				assert.False(t, tooLong)
				got = append(got, string(line))
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
			assert.Equal(t, want, got)
			line, _, err := r.next()
			assert.Empty(t, line)
			assert.ErrorIs(t, err, io.EOF)
		})
	}
}

func TestTheOutlineKeepsWhatIsNeededToFindTheID(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"id":1,"params":{"id":2,"a":[{}]},"x":[1,[2]],"s":"{\"}"}`: `{"id":1,"params":{},"x":[],"s":"{\"}"}`,
		`{"params":{"a":"}\\\"}","b":{"id":3}},"id":"a\\"}`:          `{"params":{},"id":"a\\"}`,
		`[{"id":1}]`: `[{}]`,
		`}}]]`:       `}}]]`,
	} {
		for size := 1; size <= len(line); size++ {
			var o lineOutline
			for part := []byte(line); len(part) > 0; part = part[min(size, len(part)):] {
				o.add(part[:min(size, len(part))])
			}
			require.Equal(t, want, string(o.kept), "in parts of %d bytes", size)
		}
	}
	var o lineOutline
	o.add(bytes.Repeat([]byte(" "), 2*outlineLimit))
	require.Len(t, o.kept, outlineLimit)
}

func TestMembersOfBrokenObjectsAreFoundAsFarAsTheyCanBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1,"b" : "x" , "c":{"d":[1,"]"]} }`: `a=1 b="x" c={"d":[1,"]"]} .`,
		`{}`:                                     `.`,
		`{"a":}`:                                 `a= .`,
		`{"a":1 "b":2}`:                          `a=1 "b":2 .`,
		`{"a":tru e,"b":2}`:                      `a=tru e b=2 .`,
		`{,,"a":1,,}`:                            `a=1 .`,
		`{"a":1,"b`:                              `a=1 !`,
		`{"a":1,"b":[{"c":1}`:                    `a=1 !`,
		`{"a":1,"b":"\"`:                         `a=1 !`,
		`{"a":1,"b":2`:                           `a=1 !`,
		`{"a":1,b:2}`:                            `a=1 !`,
		`{"a":1,"b"}`:                            `a=1 !`,
		`{"a":1]`:                                `a=1 !`,
		`{"a":[1}]}`:                             `a=[1} !`,
		`{"\u0061\n":"\\"}`:                      "a\n=\"\\\\\" .",
		`{"\ud800":1,"\x":2}`:                    `\ud800=1 \x=2 .`,
		`["a"]`:                                  `!`,
		``:                                       `!`,
		` {"a":1} x`:                             `a=1 .`,
		`{"a":"` + "\xff" + `"}`:                 "a=\"\xff\" .",
	} {
		var got strings.Builder
		end := scanObject([]byte(text), func(name []byte, value textSpan) {
			fmt.Fprintf(&got, "%s=%s ", name, value.of([]byte(text)))
		})
		if end < 0 {
			got.WriteString("!")
		} else {
			got.WriteString(".")
			assert.Equal(t, byte('}'), text[end-1])
		}
		assert.Equal(t, want, got.String(), text)
	}
}

func TestNesting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"[{"`: 0, `{}`: 1, `[[],[[]],{}]`: 3, `{"a":"[[["}`: 1, `[[`: 2, `["`: 1,
	} {
		assert.Equal(t, want, nestingOf([]byte(text)), text)
	}
}

func TestRequestKeys(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		`1`: `1`, `1.0`: `1.0`, `"1"`: `"1"`, `"é"`: `"é"`, `"\u00e9"`: `"é"`, `"\/"`: `"/"`, `"\ud800"`: `"\ud800"`,
	} {
		assert.Equal(t, want, requestKey([]byte(id)))
	}
}

func TestWireErrors(t *testing.T) {
	t.Parallel()
	coded := &jsonrpc.Error{Code: -32602, Message: "no", Data: []byte(`{"a":1}`)}
	for name, test := range map[string]struct {
		err  error
		want jsonrpc.Error
	}{
		"without a code": {errors.New("no"), jsonrpc.Error{Code: -32603, Message: "no"}},
		"code 0":         {&jsonrpc.Error{Message: "no"}, jsonrpc.Error{Code: -32603, Message: "no"}},
		"coded":          {coded, *coded},
		"wrapped":        {fmt.Errorf("list: %w", coded), jsonrpc.Error{Code: -32602, Message: "list: no", Data: coded.Data}},
		"long":           {errors.New(strings.Repeat("é", 2*ErrorLimit)), jsonrpc.Error{Code: -32603, Message: strings.Repeat("é", ErrorLimit) + "…"}},
		"params":         {errors.New(`unmarshaling "secret"`), jsonrpc.Error{Code: -32602, Message: "invalid params: m does not take params of this shape"}},
	} {
		assert.Equal(t, &test.want, wireError("m", test.err), name)
	}
	line := bytes.Join(errorLine([]byte("1"), coded), nil)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"a":1}}}`, string(line))
}

// failAfter is an output that breaks.
type failAfter struct {
	lines int
	got   bytes.Buffer
}

func (w *failAfter) Write(p []byte) (int, error) {
	if w.lines--; w.lines < 0 {
		return 0, errors.New("broken")
	}
	return w.got.Write(p)
}

func TestABrokenOutputIsToldOnce(t *testing.T) {
	t.Parallel()
	told := 0
	out := &failAfter{lines: 2}
	w := &lineWriter{out: out, failed: func(error) { told++ }}
	for range 5 {
		w.add([]byte("a"), []byte("b"))
		w.flush()
	}
	assert.Equal(t, "ab\nab\n", out.got.String())
	assert.Equal(t, 1, told)
	assert.Nil(t, w.above(0), "nothing waits")
}

// FuzzScan holds the scanner against a complete JSON decoder.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{wireInitialize, wireCall("1", "echo", `{"a":[1,{"b":"\\\""}]}`), `{"a":1}{`, `{ "a" : [ ] , "b" : tru } `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []string
		end := scanObject(text, func(name []byte, value textSpan) {
			got = append(got, string(name), string(value.of(text)))
		})
		decoder := jsontext.NewDecoder(bytes.NewBuffer(text), lenient()...)
		if decoder.PeekKind() != '{' {
			return
		}
		whole, err := decoder.ReadValue()
		if err != nil {
			return // broken objects need only not panic
		}
		require.Equal(t, decoder.InputOffset(), int64(end))
		var want []string
		inner := jsontext.NewDecoder(bytes.NewBuffer(bytes.Clone(whole)), lenient()...)
		_, err = inner.ReadToken()
		require.NoError(t, err)
		for inner.PeekKind() != '}' {
			name, err := inner.ReadValue()
			require.NoError(t, err)
			want = append(want, string(unquoteJSON(bytes.Clone(name))))
			value, err := inner.ReadValue()
			require.NoError(t, err)
			want = append(want, string(value))
		}
		require.Equal(t, want, got)
	})
}

// loopReader repeats a line without end.
type loopReader struct {
	line []byte
	at   int
}

func (r *loopReader) Read(p []byte) (int, error) {
	n := copy(p, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}

// BenchmarkFraming is what the connection alone costs: a call from a line to go-sdk, its result to a line.
func BenchmarkFraming(b *testing.B) {
	for _, size := range []int{80, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			arguments := `{"proposed_action":{"text":"` + strings.Repeat(`word \"x\" `, size/11) + `","amount":720.0}}`
			line := wireCall("1", "echo", arguments) + "\n"
			t := NewTransport(&loopReader{line: []byte(line)}, io.Discard, slog.New(slog.DiscardHandler))
			result := []byte(`{"content":[]}`)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				message, err := t.Read(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				t.begun()
				request, ok := message.(*jsonrpc.Request)
				if !ok {
					b.Fatal("not a request")
				}
				if err := t.Write(b.Context(), &jsonrpc.Response{ID: request.ID, Result: result}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is a whole call of an empty tool, one after the other.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{80, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			h := newInitializedWireHost(b)
			line := wireCall("1", "size", `{"text":"`+strings.Repeat("word ", size/5)+`"}`)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				h.ask(line)
			}
			require.NoError(b, h.end())
		})
	}
}
