package bridge

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopgridio/loopgrid-mcp/internal/config"
)

func TestAPanicOutsideATool(t *testing.T) {
	t.Parallel()
	b := New(Options{Settings: config.LoadFrom(nil), Log: slog.New(slog.DiscardHandler)})
	list := b.receive(func(context.Context, string, mcp.Request) (mcp.Result, error) { panic(errors.New("no")) })
	_, err := list(t.Context(), "tools/list", &mcp.ListToolsRequest{})
	var coded *jsonrpc.Error
	require.ErrorAs(t, err, &coded)
	assert.Equal(t, &jsonrpc.Error{Code: -32603, Message: "internal error"}, coded)
}
