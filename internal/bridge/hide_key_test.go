package bridge

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

const testKey = "lg_" + "live_q7Zt-4mKx9Lw2VbN8sRf3YhJ6pCd1GaT5eUo0iXy"

func hiderOf(key string) *keyHider { return newKeyHider(func() []string { return []string{key} }) }

// TestPiecesOfTheKeyAreHidden: no eight characters of its random part in a row, plain or decoded once.
func TestPiecesOfTheKeyAreHidden(t *testing.T) {
	t.Parallel()
	hide := hiderOf(testKey)
	random := strings.TrimPrefix(testKey, "lg_live_")
	escaped := func(s string, format string) string {
		var out strings.Builder
		for _, b := range []byte(s) {
			fmt.Fprintf(&out, format, b)
		}
		return out.String()
	}
	for length := pieceLength; length <= len(random); length++ {
		for from := 0; from+length <= len(random); from++ {
			piece := random[from : from+length]
			for _, spelled := range []string{
				piece, "xx" + piece + "yy", url.QueryEscape(piece + "/"), escaped(piece, "%%%02x"), escaped(piece, "%%%02X"), escaped(piece, `\u%04x`),
				piece[:3] + escaped(piece[3:5], "%%%02X") + piece[5:],
			} {
				assert.NotContains(t, hide.text("the key is "+spelled+"."), spelled)
				assert.Contains(t, hide.text("the key is "+spelled+"."), "the key is ")
			}
			for _, around := range []string{"", "a", "ab"} {
				for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
					shown := hide.text("token " + encoding.EncodeToString([]byte(around+piece+around)))
					assert.Contains(t, shown, hiddenKey, "%s%s", around, piece)
				}
			}
		}
	}
	assert.Equal(t, "x [service key] y", hide.text("x "+testKey+" y"), "with its prefix")
	assert.Equal(t, "lg_live_ and "+random[:7]+" tell nothing", hide.text("lg_live_ and "+random[:7]+" tell nothing"))
	assert.Equal(t, `{"n":1,"[service key]":["[service key]"]}`,
		string(hide.json(jsontext.Value(`{"n":1,"`+testKey+`":["`+escaped(testKey, `\u%04x`)+`"]}`))))
}

// TestANewKeyIsHiddenToo: the key file was read again; the old key is still hidden.
func TestANewKeyIsHiddenToo(t *testing.T) {
	t.Parallel()
	keys := []string{testKey}
	hide := newKeyHider(func() []string { return keys })
	assert.Equal(t, "[service key]", hide.text(testKey))
	const other = "lg_" + "live_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	keys = []string{testKey, other}
	assert.Equal(t, "[service key] [service key]", hide.text(testKey+" "+other))
}

// TestACommonWordAsAKeyGarblesNothing: its pieces occur in what this program and LoopGrid write all the time.
func TestACommonWordAsAKeyGarblesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"loopgrid", "decision", "production", "loopgrid-evidence", "record_decision", "evidence_coverage", "short", ""} {
		hide := hiderOf(key)
		for _, text := range []string{"loopgrid.record_decision", "loopgrid-mcp", "/home/ann/loopgrid-evidence/dec_1-evidence.zip", "payload_commitment"} {
			assert.Equal(t, text, hide.text(text), key)
		}
	}
	hide := hiderOf("loopgrid-service-7")
	assert.Equal(t, "loopgrid-mcp records decisions", hide.text("loopgrid-mcp records decisions"))
	assert.Equal(t, "key [service key]!", hide.text("key loopgrid-service-7!"))
}

// TestShortKeysAreHiddenWhole: what is checked stays as it is.
func TestShortKeysAreHiddenWhole(t *testing.T) {
	t.Parallel()
	hide := hiderOf("12345678")
	const id = "dec_123456781234567812345678"
	value := jsontext.Value(`{"decision_id":"` + id + `","n":123456789,"said":"12345678"}`)
	assert.Equal(t, `{"decision_id":"`+id+`","n":123456789,"said":"[service key]"}`, string(hide.json(value, id)))
	assert.Equal(t, "1234567 and [service key]", hide.text("1234567 and 12345678"))
}

func BenchmarkHideKey(b *testing.B) {
	hide := hiderOf(testKey)
	value := evidence.Object(field("text", strings.Repeat("evidence of decision 0123456789 ", 3000)))
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		hide.json(value)
	}
}
