package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
)

// [Bridge.Serve] has the order of the middleware; the first is the outermost. A legacy client's answer to a
// question makes go-sdk call the tool a second time inside all of them, so each runs once a call.

// startInOrder returns the outermost middleware. It calls arrive for each tools/call in the order in which
// the calls stood on the input, one after the other: arrive takes the call's place in a queue and must not
// wait. Only then the next message is handed to go-sdk. arrive returns the context of the call and a
// function that is called when the handler has returned.
//
// It also gives the call its arguments exactly as the host spelled them. They may hold what no decoder of
// go-sdk lets through: duplicate names, invalid UTF-8, lone surrogates and any nesting.
func (t *transport) startInOrder(arrive func(context.Context, *mcp.CallToolRequest) (context.Context, func())) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			unstarted := t.unstarted.Load() // at most one is, so it is this one
			if unstarted == nil {           // it came over another transport
				unstarted = &unstartedCall{arguments: call.Params.Arguments}
			}
			call.Params.Arguments = unstarted.arguments
			ctx, leave := arrive(context.WithValue(ctx, wireIDKey{}, unstarted.id), call)
			defer leave()
			t.begun()
			result, err := next(ctx, method, req)
			if answer, ok := result.(*mcp.CallToolResult); ok && answer != nil && err == nil {
				return t.keepContent(unstarted.key, answer), nil
			}
			return result, err
		}
	}
}

// wireIDKey is the context key of a call's JSON-RPC id.
type wireIDKey struct{}

// logCalls returns the middleware that writes one line for each tools/call: what was called, how long it
// took and how it ended, with the id of the JSON-RPC request and the id that the requests to LoopGrid
// carry. No argument and no word of a result gets into the log.
func logCalls(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			request, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			begin := time.Now()
			result, err := next(ctx, method, req)
			id, _ := ctx.Value(wireIDKey{}).(string)
			outcome, requestID := outcomeOf(result, err), ""
			var cause []slog.Attr
			switch c := callOf(ctx); {
			case c == nil:
			case c.leftBehind:
				requestID, outcome = c.requestID, loopgrid.Unknown.String()
			default:
				requestID = c.requestID
				if c.cause != "" {
					cause = append(cause, slog.String("cause", c.cause))
				}
				if c.outcome != "" {
					outcome = c.outcome
				}
			}
			log.LogAttrs(ctx, slog.LevelInfo, "tool call", append([]slog.Attr{
				slog.String("tool", clipped(request.Params.Name, nameLimit)),
				slog.Duration("took", time.Since(begin)),
				slog.String("outcome", outcome),
				slog.String("request_id", requestID),
				slog.String("id", clipped(id, nameLimit)),
			}, cause...)...)
			return result, err
		}
	}
}

// outcomeOf is one word for how a call ended that has none of its own.
func outcomeOf(result mcp.Result, err error) string {
	answer, _ := result.(*mcp.CallToolResult)
	switch {
	case err != nil || answer == nil:
		return "refused"
	case answer.IsError:
		return "error"
	case answer.InputRequests != nil:
		return "asked"
	default:
		return "ok"
	}
}

// recoverPanics returns the middleware that keeps a panic in one call from ending the process and all
// other calls with it (go-sdk does not recover). The call is answered with a tool error that ends with
// what is known about it. A panic in a goroutine that a handler started is beyond its reach.
func recoverPanics(log *slog.Logger, known func(context.Context) string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			defer func() {
				panicked := recover()
				if panicked == nil {
					return
				}
				// The value of a panic may quote an argument; what the runtime panics with does not.
				what := fmt.Sprintf("%T", panicked)
				if fault, ok := panicked.(runtime.Error); ok {
					what = fault.Error()
				}
				log.ErrorContext(ctx, "panic", "method", method, "panic", what, "stack", string(debug.Stack()))
				if _, ok := req.(*mcp.CallToolRequest); ok {
					result, err = failed(join("loopgrid-mcp failed with an internal error; its log on stderr has the details.", known(ctx))), nil
					return
				}
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}()
			return next(ctx, method, req)
		}
	}
}

// answerErrors returns the middleware that makes a tool error of everything that goes wrong in a
// tools/call, because a model can read that and mend its call, and an answer of results that go-sdk would
// never send. A tool that does not exist stays a protocol error, as MCP wants it, that lists those that do:
// names are the tools in the spelling for that call. known says what is known about the evidence of the
// call, in whole sentences.
func answerErrors(names func(*mcp.CallToolRequest) []string, known func(context.Context) string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			call, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return result, err
			}
			if err != nil {
				return answerError(ctx, call, err, names, known)
			}
			answer, ok := result.(*mcp.CallToolResult)
			switch {
			case !ok:
				return result, nil
			case answer == nil:
				return failed(join("loopgrid-mcp failed with an internal error: the tool gave no result.", known(ctx))), nil
			case !isValidStructure(answer.StructuredContent):
				return failed(join("loopgrid-mcp failed with an internal error: the result of the tool is not valid JSON.", known(ctx))), nil
			case answer.InputRequests != nil && answer.Content == nil:
				answer.Content = []mcp.Content{} // go-sdk would send null, which no client expects
			}
			return answer, nil
		}
	}
}

func answerError(
	ctx context.Context, call *mcp.CallToolRequest, err error,
	names func(*mcp.CallToolRequest) []string, known func(context.Context) string,
) (mcp.Result, error) {
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "unknown tool "): // (*mcp.Server).callTool
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("unknown tool %q; the tools are %s",
				clipped(call.Params.Name, nameLimit), strings.Join(names(call), ", ")),
		}
	case strings.HasPrefix(text, "multi-round-trip: "): // the question of a legacy client's call
		return failed(join(questionFault(err), "Nothing was recorded.")), nil
	case errors.Is(err, context.Canceled):
		return failed(join("The call was cancelled.", known(ctx))), nil
	case !strings.HasSuffix(text, "."):
		text += "."
	}
	return failed(join(text, known(ctx))), nil
}

// questionFault says why a question to a person has no usable answer. It does not repeat go-sdk's schema
// errors: they quote the answer.
func questionFault(err error) string {
	var coded *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, mcp.ErrConnectionClosed):
		return "The question to the person ended without an answer."
	case errors.As(err, &coded) && strings.HasPrefix(coded.Message, unusableAnswer):
		return fmt.Sprintf("The client answered the question, but %s.", clipped(coded.Message, errorLimit))
	case errors.As(err, &coded):
		return fmt.Sprintf("The client did not put the question to a person: %s.", strings.TrimSuffix(clipped(coded.Message, errorLimit), "."))
	case strings.Contains(err.Error(), "requested schema"):
		return "The answer to the question does not fit its form: " + formRule + "."
	default:
		return "The answer to the question could not be used."
	}
}

// pinVersion returns the middleware that keeps the version of a session as it was agreed. go-sdk keeps the
// one that the client asked for in initialize (its issue 1258), so that a client that asks for an unknown or
// newer one and is told 2025-11-25 is later treated as one of 2026-07-28. It also lets server/discover turn
// a session that was initialized into one of 2026-07-28, which then is asked nothing any more.
func pinVersion() mcp.Middleware {
	legacy := slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= statelessVersion })
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

const (
	// statelessVersion is the first version of MCP without initialize.
	statelessVersion = "2026-07-28"

	// nameLimit clips a name that the host made up, in bytes.
	nameLimit = 80
)

// isValidStructure reports whether go-sdk can send structured content: it never answers a call whose
// result it cannot marshal, and lets invalid UTF-8 through.
func isValidStructure(content any) bool {
	lenient := jsontext.AllowDuplicateNames(true)
	switch content := content.(type) {
	case nil:
		return true
	case json.RawMessage:
		return jsontext.Value(content).IsValid(lenient)
	case jsontext.Value:
		return content.IsValid(lenient)
	default:
		_, err := json.Marshal(content)
		return err == nil
	}
}

// clipped is s cut to at most limit bytes, in valid UTF-8.
func clipped(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
