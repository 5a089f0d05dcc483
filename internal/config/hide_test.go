package config_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func TestSecret_Hide(t *testing.T) {
	t.Parallel()

	const (
		random = "Q7x-Vb2_kLm9ZpR4sTw8YcNf3HdJgE6uAeXo1i"
		key    = "lg_live_" + random
	)
	secret := config.NewSecret(key)
	escaped := func(format string) string {
		var out strings.Builder
		for _, b := range []byte(key) {
			fmt.Fprintf(&out, format, b)
		}

		return out.String()
	}
	for in, want := range map[string]string{
		"a " + key + " b":               "a [service key] b",
		"a lg_live_" + random[:8] + "…": "a [service key]…",
		"x" + random[10:18] + "y":       "x[service key]y",
		"lg_live_x " + random[10:17]:    "lg_live_x " + random[10:17],
		"é" + escaped(`\u%04x`) + "é":   "é[service key]é",
		"a=" + escaped(`%%%02X`) + "&b": "a=[service key]&b",
		"a " + escaped(`%%%02x`)[:20*3]: "a [service key]",
		key + key:                       "[service key][service key]",
		"nothing of it":                 "nothing of it",
		strings.Replace(key, "7", `\u0037`, 1) + strings.Repeat("!", 3): "[service key]!!!",
	} {
		assert.Equal(t, want, secret.Hide(in), in)
	}
	for _, before := range []string{"", "a", "ab", "abc", "Basic user:"} {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(before + key + before))
			assert.NotContains(t, secret.Hide("Basic "+encoded+" x"), encoded[16:40])
			for length := range len(encoded) {
				cut := secret.Hide(encoded[:length])
				decoded, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(cut), "="))
				for i := range len(random) - 7 {
					assert.NotContains(t, string(decoded), random[i:i+8], encoded[:length])
				}
			}
			assert.Equal(t, "[service key]", secret.Hide("zz" + encoded[2:])[:13], "within another word")
		}
	}
	assert.Equal(t, "loopgrid", config.NewSecret("loopgrid").Hide("loopgrid"), "a short key is a word")
	assert.Equal(t, "x", config.Secret{}.Hide("x"))
}
