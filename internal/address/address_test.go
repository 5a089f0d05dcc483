package address_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "api.localhost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true,
		"::ffff:127.0.0.1": true, "0.0.0.0": true, "::": true, "\uff11\uff12\uff17.0.0.1": true, "127\u30020.0.1": true,
		"": false, "localhost.example": false, "notlocalhost": false, "10.0.0.1": false, "192.168.0.1": false, "2001:db8::1": false,
		"loopgrid.example": false,
	} {
		assert.Equal(t, want, address.IsLoopback(host), host)
	}
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://LoopGrid.Example":               "loopgrid.example:80",
		"https://loopgrid.example./base":        "loopgrid.example:443",
		"http://loopgrid.example:08080":         "loopgrid.example:8080",
		"http://user:secret@h:1/secret?q":       "h:1",
		"http://[::1]:8000":                     "[::1]:8000",
		"http://[::ffff:10.0.0.1]:8000":         "10.0.0.1:8000",
		"http://\uff11\uff10.0.0.1:8000":        "10.0.0.1:8000",
		"HTTPS://\uff4c\uff4f\uff4f\uff50.test": "loop.test:443",
	} {
		base, err := url.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want, address.HostPort(base), text)
	}
}
