package bridge

import (
	"strings"
	"testing"
)

// BenchmarkCheck is the check of the arguments of a call.
func BenchmarkCheck(b *testing.B) {
	for name, text := range map[string]string{"small": "evidence", "100kB": strings.Repeat("evidence ", 100_000/9)} {
		b.Run(name, func(b *testing.B) {
			tool := recordActionTool()
			raw := []byte(`{"decision_id":"dec_0123456789abcdef01234567","tool":"payments.refund","details":{"text":"` + text + `","amount":320.0,"order":9007199254740993}}`)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, problems := tool.check(raw); problems != nil {
					b.Fatal(problems)
				}
			}
		})
	}
}
