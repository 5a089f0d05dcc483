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
				line := r.next()
				assert.False(t, line.tooLong)
				got = append(got, string(line.text))
				if line.err != nil {
					require.ErrorIs(t, line.err, io.EOF)
					break
				}
			}
			assert.Equal(t, want, got)
			line := r.next()
			assert.Empty(t, line.text)
			assert.ErrorIs(t, line.err, io.EOF)
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
	assert.Nil(t, w.pendingAbove(0), "nothing waits")
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
				message, err := t.legacy.Read(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				(&Call{transport: t}).Started()
				request, ok := message.(*jsonrpc.Request)
				if !ok {
					b.Fatal("not a request")
				}
				if err := t.legacy.Write(b.Context(), &jsonrpc.Response{ID: request.ID, Result: result}); err != nil {
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
