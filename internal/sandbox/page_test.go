package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/sandbox"
)

// TestPage holds the page to what it promises without a browser; make page-test opens it in one.
func TestPage(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{Auth: true})
	status, page, header, err := c.send(http.MethodGet, "/", "")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, status, "nobody needs a key to open it")
	assert.Contains(t, page, "What is recorded here proves nothing.")
	for _, outside := range []string{"http:", "https:", "//cdn", " src=", "@import", "url(", "innerHTML", "insertAdjacentHTML", "eval(", "document.write"} {
		assert.NotContains(t, page, outside)
	}
	policy := header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "script-src 'sha256-", "style-src 'sha256-"} {
		assert.Contains(t, policy, part)
	}
	assert.NotContains(t, policy, "unsafe")
	assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
	assert.LessOrEqual(t, strings.Count(page, "\n"), 250)
}

// TestChanges is what the page asks for each second.
func TestChanges(t *testing.T) {
	t.Parallel()
	c := newClient(t, sandbox.Options{})
	changes := func() string { _, answer := c.get("/changes"); return answer }
	before := changes()
	assert.Equal(t, before, changes())
	id := c.create(`{"decision_type":"t"}`)
	after := changes()
	assert.NotEqual(t, before, after)
	_, _ = c.get("/api/v1/decisions/" + id)
	assert.Equal(t, after, changes())
	_, other := newClient(t, sandbox.Options{}).get("/changes")
	assert.NotEqual(t, before, other, "another start is told apart")
}
