package evidence_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// FuzzCheck: no text may crash the checks, and what is accepted has a canonical form that is stable.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{}`, numbers, `{"a":[1,{"b":"\ud800"}]}`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{"a":1e400}`, `[[[`, `{"a`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = evidence.ShallowObject(raw)
		for range evidence.Members(raw) {
		}
		for range evidence.Elements(raw) {
		}
		evidence.HasLineBreakers(raw)
		if err := evidence.CheckValue(raw); err != nil {
			if len(err.Error()) > 1200 {
				t.Fatalf("long message: %d bytes", len(err.Error()))
			}
			return
		}
		once, err := evidence.AppendCanonical(nil, raw)
		if err != nil {
			t.Fatalf("accepted, but without canonical form: %v", err)
		}
		twice, err := evidence.AppendCanonical(nil, once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("canonical form is not stable: %s, then %s (%v)", once, twice, err)
		}
	})
}

// FuzzMerge: the merged object has each member of the original with the same text, and the field once.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(numbers), "tool", "x")
	f.Add([]byte(` { "\u0074ool" : [1 , 2] } `), "tool", "é\u2028")
	f.Add([]byte(`{}`), "", "")
	f.Fuzz(func(t *testing.T, obj []byte, name, text string) {
		if evidence.CheckObject(obj) != nil || !evidence.Text(name).IsValid() {
			return
		}
		value := evidence.Text(text)
		quoted, _ := evidence.Unquote(evidence.Text(name)) // with U+FFFD for what is no UTF-8
		merged := evidence.Merge(obj, evidence.Field{Name: quoted, Value: value})
		if err := evidence.CheckObject(merged); err != nil {
			t.Fatalf("merged into something else: %v: %s", err, merged)
		}
		got := map[string]string{}
		for n, v := range evidence.Members(merged) {
			got[n] = string(v)
		}
		for n, v := range evidence.Members(obj) {
			if n != quoted && got[n] != string(v) {
				t.Fatalf("member %q was %s and is %s", n, v, got[n])
			}
		}
		if got[quoted] != string(value) || !json.Valid(merged) {
			t.Fatalf("field %q is %s in %s", quoted, got[quoted], merged)
		}
	})
}

func BenchmarkCheckObject(b *testing.B) {
	benchmark(b, evidence.CheckObject)
}

func BenchmarkCommitment(b *testing.B) {
	benchmark(b, func(raw []byte) error { _, err := evidence.Commitment(raw); return err })
}

func BenchmarkMerge(b *testing.B) {
	tool := evidence.Field{Name: "tool", Value: evidence.Text("stripe.refunds.create")}
	benchmark(b, func(raw []byte) error { evidence.Merge(raw, tool); return nil })
}

func benchmark(b *testing.B, f func([]byte) error) {
	b.Helper()
	for name, repeat := range map[string]int{"100B": 1, "100kB": 1000} {
		var raw bytes.Buffer
		raw.WriteString(`{"list":[` + numbers)
		for range repeat - 1 {
			raw.WriteString("," + numbers)
		}
		raw.WriteString(`],"message":"h\u00e9llo"}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(raw.Len()))
			for b.Loop() {
				if err := f(raw.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
