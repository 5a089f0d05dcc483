package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopgridio/loopgrid-mcp/internal/loopgrid"
	"github.com/loopgridio/loopgrid-mcp/internal/stdio"
	"github.com/loopgridio/loopgrid-mcp/internal/text"
)

// [Bridge.Serve] has the order of the middleware; the first is the outermost. A legacy client's answer to a
// question makes go-sdk call the tool a second time inside all of them, so each runs once a call.

// startInOrder returns the outermost middleware. It calls arrive for each tools/call in the order in which
// the calls stood on the input, one after the other: arrive takes the call's place in a queue and must not
// wait. Only then the next message is handed to go-sdk. arrive returns the context of the call and a
// function that is called when the handler has returned.
func startInOrder(t *stdio.Transport, arrive func(context.Context, *mcp.CallToolRequest) (context.Context, func())) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			request, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			call := t.TakeCall(request)
			ctx, leave := arrive(context.WithValue(ctx, wireIDKey{}, call.ID), request)
			defer leave()
			call.Started()
			result, err := next(ctx, method, req)
			if answer, ok := result.(*mcp.CallToolResult); ok && answer != nil && err == nil {
				return call.Answer(answer), nil
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
				slog.String("tool", text.Clip(request.Params.Name, nameLimit)),
				slog.Duration("took", time.Since(begin)),
				slog.String("outcome", outcome),
				slog.String("request_id", requestID),
				slog.String("id", text.Clip(id, nameLimit)),
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
	message := err.Error()
	switch {
	case strings.HasPrefix(message, "unknown tool "): // (*mcp.Server).callTool
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("unknown tool %q; the tools are %s",
				text.Clip(call.Params.Name, nameLimit), strings.Join(names(call), ", ")),
		}
	case strings.HasPrefix(message, "multi-round-trip: "): // the question of a legacy client's call
		return failed(join(questionFault(err), "Nothing was recorded.")), nil
	case errors.Is(err, context.Canceled):
		return failed(join("The call was cancelled.", known(ctx))), nil
	case !strings.HasSuffix(message, "."):
		message += "."
	}
	return failed(join(message, known(ctx))), nil
}

// questionFault says why a question to a person has no usable answer. It does not repeat go-sdk's schema
// errors: they quote the answer.
func questionFault(err error) string {
	var coded *jsonrpc.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, mcp.ErrConnectionClosed):
		return "The question to the person ended without an answer."
	case errors.As(err, &coded) && strings.HasPrefix(coded.Message, stdio.UnusableAnswer):
		return fmt.Sprintf("The client answered the question, but %s.", text.Clip(coded.Message, stdio.ErrorLimit))
	case errors.As(err, &coded):
		return fmt.Sprintf("The client did not put the question to a person: %s.", strings.TrimSuffix(text.Clip(coded.Message, stdio.ErrorLimit), "."))
	case strings.Contains(err.Error(), "requested schema"):
		return "The answer to the question does not fit its form: " + formRule + "."
	default:
		return "The answer to the question could not be used."
	}
}

const (
	// nameLimit clips a name that the host made up, in characters.
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
