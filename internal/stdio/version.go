package stdio

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// StatelessVersion is the first version of MCP without initialize.
const StatelessVersion = "2026-07-28"

// PinVersion returns the middleware that keeps the version of a session as it was agreed. go-sdk keeps the
// one that the client asked for in initialize (its issue 1258), so that a client that asks for an unknown or
// newer one and is told 2025-11-25 is later treated as one of 2026-07-28. It also lets server/discover turn
// a session that was initialized into one of 2026-07-28, which then is asked nothing any more.
func PinVersion() mcp.Middleware {
	legacy := slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= StatelessVersion })
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch req := req.(type) {
			case *mcp.ServerRequest[*mcp.InitializeParams]:
				if req.Params != nil && !slices.Contains(legacy, req.Params.ProtocolVersion) {
					req.Params.ProtocolVersion = legacy[0]
				}
			case *mcp.ServerRequest[*mcp.DiscoverParams]:
				if agreed := req.Session.InitializeParams(); agreed != nil && slices.Contains(legacy, agreed.ProtocolVersion) {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
				}
			}
			return next(ctx, method, req)
		}
	}
}
