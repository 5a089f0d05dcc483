package stdio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/loopgridio/loopgrid-mcp/internal/evidence"
)

// maxNesting is how deep a message may nest outside the arguments of a tools/call: go-sdk refuses
// more (internal/json: maximum nesting depth of 1000). The arguments never pass through its decoder.
const maxNesting = 1000

// envelope is a line cut into the members of a JSON-RPC message. The members are parts of the line, exactly as spelled; nil if absent.
type envelope struct {
	line []byte

	version, id, params, outcome, failure []byte
	method                                []byte // as spelled, with quotes
	name                                  string // the method, unquoted
	twice                                 string // a member of the envelope whose name appears twice

	paramsAt int // where params begin in the line
	// Members of params, in params.
	meta, toolName, arguments, inputResponses, requestState evidence.Span

	// What [Transport.usableParams] found in params._meta.
	token     string // the progress token as spelled, "" if there is none
	stateless bool   // the request speaks the era without initialize
}

// lineFault says why a line is not handed over. It never repeats what stands in params.
type lineFault struct {
	code   int64
	reason string
	data   []byte // JSON, for the host's program

	toolError bool // the model reads the reason: the answer is the result of a tool
}

func parseFault(reason string) *lineFault {
	return &lineFault{code: jsonrpc.CodeParseError, reason: "parse error: " + reason}
}

func requestFault(reason string) *lineFault {
	return &lineFault{code: jsonrpc.CodeInvalidRequest, reason: "invalid request: " + reason}
}

func paramsFault(reason string) *lineFault {
	return &lineFault{code: jsonrpc.CodeInvalidParams, reason: "invalid params: " + reason}
}

// cutEnvelope takes line apart as far as it can be told apart.
func cutEnvelope(line []byte) envelope {
	e := envelope{line: line}
	idsDiffer := false
	for name, value := range evidence.Scan(line) {
		var at *[]byte
		switch string(name) {
		case "jsonrpc":
			at = &e.version
		case "id":
			at = &e.id
			idsDiffer = idsDiffer || e.id != nil && !bytes.Equal(e.id, value.Of(line))
		case "method":
			at = &e.method
		case "params":
			at = &e.params
			e.paramsAt = value.Start
		case "result":
			at = &e.outcome
		case "error":
			at = &e.failure
		default:
			continue
		}
		if *at != nil {
			e.twice = string(name)
		}
		*at = value.Of(line)
	}
	if idsDiffer {
		e.id = nil // no answer can be under the right one
	}
	e.name = stringOf(e.method)
	e.cutParams()
	return e
}

func (e *envelope) cutParams() {
	for name, value := range evidence.Scan(e.params) {
		if string(name) == "_meta" {
			e.meta = value
		}
		if e.name != methodCallTool {
			continue
		}
		switch string(name) {
		case "name":
			e.toolName = value
		case "arguments":
			e.arguments = value
		case "inputResponses":
			e.inputResponses = value
		case "requestState":
			e.requestState = value
		}
	}
}

// readEnvelope cuts line and says what is wrong with it, if anything. Duplicate names, invalid UTF-8, lone
// surrogates and any nesting are let through in the arguments of a tools/call alone, so that the tool
// can tell the model.
func readEnvelope(line []byte) (envelope, *lineFault) {
	if rest, found := bytes.CutPrefix(line, []byte(byteOrderMark)); found {
		return cutEnvelope(rest), parseFault("the line begins with a byte order mark")
	}
	e := cutEnvelope(line)
	if why := e.checkJSON(); why != nil {
		return e, why
	}
	invalid := func(reason string) (envelope, *lineFault) {
		return e, requestFault(reason)
	}
	switch {
	case line[0] == '[':
		return invalid("batches are not supported, send one message a line")
	case line[0] != '{':
		return invalid("a message is a JSON object")
	case string(e.version) != `"2.0"`:
		return invalid(`"jsonrpc" must be "2.0"`)
	case e.method == nil && e.outcome == nil && e.failure == nil:
		return invalid(`there is no "method"`)
	case e.method != nil && e.method[0] != '"':
		return invalid(`"method" must be a string`)
	case e.id != nil && !isID(e.id):
		return invalid(`"id" must be a string or a number`)
	}
	return e, nil
}

// isResponse reports whether the line answers a question of ours.
func (e *envelope) isResponse() bool {
	return e.method == nil && (e.outcome != nil || e.failure != nil)
}

// checkJSON checks that the line is one JSON value, and strict outside the arguments of a call.
func (e *envelope) checkJSON() *lineFault {
	brackets := bytes.Count(e.line, []byte("{")) + bytes.Count(e.line, []byte("["))
	deep := brackets > maxNesting && evidence.NestsDeeper(e.line, maxNesting)
	if !deep && jsontext.Value(e.line).IsValid() {
		return nil
	}
	rest := e.withoutArguments()
	if deep && evidence.NestsDeeper(rest, maxNesting) {
		return requestFault(fmt.Sprintf("it nests deeper than %d levels", maxNesting))
	}
	syntax := e.line
	if deep {
		syntax = rest // the tool refuses what nests so deep, whatever else is wrong with it
	}
	if err := checkSyntax(syntax, lenient()...); err != nil {
		return parseFault(explainSyntax(err))
	}
	if !utf8.Valid(rest) {
		return parseFault("the line is not valid UTF-8")
	}
	if e.twice != "" {
		return requestFault(fmt.Sprintf("%q appears twice", e.twice))
	}
	err := checkSyntax(rest)
	if err == nil {
		return nil
	}
	fault := "a string holds half a surrogate pair"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		fault = "a member name appears twice in an object"
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && strings.HasPrefix(string(syntactic.JSONPointer), "/params") {
		return paramsFault(fault)
	}
	return requestFault(fault)
}

// withoutArguments is the line with null in place of the arguments of a call.
func (e *envelope) withoutArguments() []byte {
	if e.arguments.End == 0 {
		return e.line
	}
	return splice(e.line, replacement{e.arguments.Shift(e.paramsAt), []byte("null")})
}

var errTwoValues = errors.New("more than one JSON value on the line")

// lenient are the options for text whose names and strings are not looked at.
func lenient() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
}

// checkSyntax checks that text is one JSON value.
func checkSyntax(text []byte, options ...jsontext.Options) error {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), options...)
	if _, err := decoder.ReadValue(); err != nil {
		return err
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, errTwoValues)
	}
	return nil
}

// explainSyntax tells a syntax error without quoting more than a few bytes of the text.
func explainSyntax(err error) string {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, errTwoValues):
		return errTwoValues.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the line ends inside a value"
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		return fmt.Sprintf("%v (at byte %d)", syntactic.Err, syntactic.ByteOffset)
	}
	return "not JSON"
}
