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

const methodCallTool = "tools/call"

// envelope is a line cut into the members of a JSON-RPC message. The members are parts of the line,
// as it spells them, nil where absent.
type envelope struct {
	line []byte

	version, id, params, outcome, failure []byte
	method                                []byte // as spelled, with quotes
	name                                  string // the method as it is meant

	// arguments is where params.arguments of a tools/call stands in the line.
	arguments evidence.Span
	// start of params in the line.
	paramsAt int
	// twice names an envelope member that stands more than once.
	twice string
}

// lineFault says why a line is not handed over. It never repeats what stands in params.
type lineFault struct {
	code   int64
	reason string
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
	if e.name == methodCallTool && len(e.params) > 0 {
		if arguments := evidence.Find(e.params, "arguments"); arguments.End > 0 {
			e.arguments = arguments.Shift(e.paramsAt)
		}
	}
	return e
}

// readEnvelope cuts line and says what is wrong with it, if anything. Duplicate names, invalid UTF-8, lone
// surrogates and any nesting are let through in the arguments of a tools/call alone, so that the tool
// can tell the model.
func readEnvelope(line []byte) (envelope, *lineFault) {
	if bom := []byte("\ufeff"); bytes.HasPrefix(line, bom) {
		return cutEnvelope(line[len(bom):]), &lineFault{jsonrpc.CodeParseError, "parse error: the line begins with a byte order mark"}
	}
	e := cutEnvelope(line)
	if why := e.checkJSON(); why != nil {
		return e, why
	}
	invalid := func(reason string) (envelope, *lineFault) {
		return e, &lineFault{jsonrpc.CodeInvalidRequest, "invalid request: " + reason}
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
	case e.method == nil:
		return e, nil
	}
	if problem := e.checkParams(); problem != "" {
		return e, &lineFault{jsonrpc.CodeInvalidParams, "invalid params: " + problem}
	}
	return e, nil
}

// checkParams says what is wrong with the shape of params, as far as go-sdk would tell it by
// repeating them.
func (e *envelope) checkParams() string {
	switch {
	case e.params == nil || string(e.params) == "null":
		return ""
	case e.params[0] != '{':
		return "they must be an object"
	case e.name == methodCallTool:
		if name := evidence.Find(e.params, "name").Of(e.params); len(name) > 0 && name[0] != '"' {
			return `"name" must be a string`
		}
	}
	return ""
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
		return &lineFault{jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: it nests deeper than %d levels", maxNesting)}
	}
	syntax := e.line
	if deep {
		syntax = rest // the tool refuses what nests so deep, whatever else is wrong with it
	}
	if err := checkSyntax(syntax, lenient()...); err != nil {
		return &lineFault{jsonrpc.CodeParseError, "parse error: " + explainSyntax(err)}
	}
	if !utf8.Valid(rest) {
		return &lineFault{jsonrpc.CodeParseError, "parse error: the line is not valid UTF-8"}
	}
	if e.twice != "" {
		return &lineFault{jsonrpc.CodeInvalidRequest, fmt.Sprintf("invalid request: %q stands twice", e.twice)}
	}
	err := checkSyntax(rest)
	if err == nil {
		return nil
	}
	fault := "a string holds half a surrogate pair"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		fault = "a member name stands twice in an object"
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && strings.HasPrefix(string(syntactic.JSONPointer), "/params") {
		return &lineFault{jsonrpc.CodeInvalidParams, "invalid params: " + fault}
	}
	return &lineFault{jsonrpc.CodeInvalidRequest, "invalid request: " + fault}
}

// withoutArguments is the line with null in place of the arguments of a call.
func (e *envelope) withoutArguments() []byte {
	return splice(e.line, replacement{e.arguments, []byte("null")})
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
