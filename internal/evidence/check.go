package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep an argument may nest, counted in the argument itself ({} is 1). LoopGrid appends a deeper event and then
// fails: at about 250 levels its answer is a 500 although the event is in the ledger, and later reads of that decision fail too.
const MaxDepth = 200

// MaxIntegerDigits is the length of the longest integer that LoopGrid reads: Python refuses to parse a longer one.
const MaxIntegerDigits = 4300

// Problem says why a JSON text cannot become evidence, and where: Path is dotted as in items[3].price, relative to the checked
// value, and empty for the value as a whole. Neither quotes a value of the caller.
type Problem struct {
	Path   string
	Reason string
}

// Error returns "path: reason", or the reason alone where the whole value is meant.
func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Reason
	}
	return p.Path + ": " + p.Reason
}

// CheckObject reports whether raw is one JSON object that LoopGrid can record exactly as it is written. It refuses duplicate
// names at any depth, invalid UTF-8, lone surrogates, more than [MaxDepth] levels, numbers that a 64-bit float cannot hold and
// integers of more than [MaxIntegerDigits] digits. The error is a [*Problem].
func CheckObject(raw []byte) error {
	if err := CheckValue(raw); err != nil {
		return err
	}
	if kind := jsontext.Value(raw).Kind(); kind != '{' {
		return &Problem{Reason: "must be a JSON object, got " + kindName(kind)}
	}
	return nil
}

// CheckValue is [CheckObject] for a JSON value of any kind.
func CheckValue(raw []byte) error {
	// Before the parser, which gives up beyond a depth of its own and cannot tell where.
	if at, ok := tooDeep(raw, MaxDepth); ok {
		return &Problem{Path: pathAt(raw, at), Reason: "nests deeper than " + strconv.Itoa(MaxDepth) + " levels"}
	}
	if !jsontext.Value(raw).IsValid() { // which allocates nothing, and tells nothing
		return syntaxProblem(raw)
	}
	return checkNumbers(raw)
}

// ShallowObject is [CheckObject] with duplicates, bad text and numbers left to the checks of each member: it tells only whether
// raw can be read as one object at all, so that every member can be judged by itself.
func ShallowObject(raw []byte) error {
	at, deep := tooDeep(raw, jsontextDepth)
	if deep {
		return &Problem{Path: pathAt(raw, at), Reason: "nests deeper than " + strconv.Itoa(MaxDepth) + " levels"}
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if !jsontext.Value(raw).IsValid(lenient...) {
		return syntaxProblem(raw, lenient...)
	}
	if kind := jsontext.Value(raw).Kind(); kind != '{' {
		return &Problem{Reason: "must be a JSON object, got " + kindName(kind)}
	}
	return nil
}

// jsontextDepth is the depth at which the JSON parser itself gives up (jsontext, "exceeded max depth").
const jsontextDepth = 10_000

// kindName names a kind of JSON value with its article, for a sentence.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case '{':
		return "an object"
	default:
		return "nothing"
	}
}

// KindName names the kind of a JSON value with its article, as in "a string" or "null".
func KindName(v jsontext.Value) string { return kindName(v.Kind()) }

// syntaxProblem parses raw, which is not valid under the options, once more to tell what is wrong.
func syntaxProblem(raw []byte, options ...jsontext.Options) *Problem {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), options...)
	_, err := d.ReadValue()
	if err == nil {
		return &Problem{Reason: "is more than one JSON value"}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &Problem{Reason: "is not complete JSON"}
	}
	at := int(syntax.ByteOffset)
	path := pathAt(raw, at)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Problem{Path: path, Reason: "this name appears twice in its object"}
	case !utf8.Valid(raw):
		return &Problem{Path: pathAt(raw, invalidUTF8(raw)), Reason: "is not valid UTF-8"}
	case isSurrogateEscape(raw, at):
		return &Problem{Path: path, Reason: "holds half of a surrogate pair, which is no Unicode character"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Problem{Path: path, Reason: "is not complete JSON"}
	default:
		return &Problem{Path: path, Reason: fmt.Sprintf("is not valid JSON (at byte %d)", at)}
	}
}

func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(raw)
}

// isSurrogateEscape says whether the parser stopped at an escape such as \ud800.
func isSurrogateEscape(raw []byte, at int) bool {
	if at < 0 || at+4 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
		return false
	}
	return (raw[at+2]|0x20) == 'd' && raw[at+3] >= '8'
}

// checkNumbers looks at every number of raw, which is valid JSON.
func checkNumbers(raw []byte) error {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '"':
			i = skipString(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(raw) && !isDelimiter(raw[end]) {
				end++
			}
			if reason := numberProblem(raw[i:end]); reason != "" {
				return &Problem{Path: pathAt(raw, i), Reason: reason}
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

func numberProblem(number []byte) string {
	if isInteger(number) {
		if len(bytes.TrimPrefix(number, []byte("-"))) > MaxIntegerDigits {
			return "is an integer of more than " + strconv.Itoa(MaxIntegerDigits) + " digits, which LoopGrid cannot read"
		}
		return ""
	}
	if _, err := strconv.ParseFloat(string(number), 64); err != nil {
		return "is a number that a 64-bit float cannot hold, which LoopGrid cannot record"
	}
	return ""
}

// isInteger says whether a JSON number is an integer to Python's json module: it has no fraction and no exponent.
func isInteger(number []byte) bool { return !bytes.ContainsAny(number, ".eE") }

const (
	maxPathName  = 40
	maxPathSteps = 12
)

// pathAt names the place of byte offset at in raw: the containers around it and the member or element that it belongs to. It
// is written for text that is wrong somewhere, so it only counts brackets and quotes.
func pathAt(raw []byte, at int) string {
	type level struct {
		array bool
		index int
		name  string
	}
	var stack []level
	at = min(at, len(raw))
	expectName := false
	for i := 0; i < at || (i == at && i < len(raw) && raw[i] == '"' && expectName); {
		switch raw[i] {
		case '{':
			stack = append(stack, level{})
			expectName = true
			i++
		case '[':
			stack = append(stack, level{array: true})
			expectName = false
			i++
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			expectName = false
			i++
		case ',':
			if n := len(stack); n > 0 && stack[n-1].array {
				stack[n-1].index++
			} else {
				expectName = n > 0
			}
			i++
		case '"':
			end := skipString(raw, i)
			if end < 0 {
				end = len(raw)
			}
			if n := len(stack); expectName && n > 0 {
				stack[n-1].name = pathName(raw[i:end])
				expectName = false
			}
			i = end
		default:
			i++
		}
	}
	var path strings.Builder
	for i, l := range stack {
		if i == maxPathSteps {
			path.WriteString("…")
			break
		}
		switch {
		case l.array:
			path.WriteString("[" + strconv.Itoa(l.index) + "]")
		case l.name == "": // an object whose first name has not come yet
		case l.name[0] == '[' || path.Len() == 0:
			path.WriteString(l.name)
		default:
			path.WriteString("." + l.name)
		}
	}
	return path.String()
}

// pathName makes the quoted name of a member fit to stand in a message: plain where it is a plain word, quoted otherwise,
// never long and never with a character that a terminal would act upon.
func pathName(quoted []byte) string {
	unquoted, _ := jsontext.AppendUnquote(nil, quoted) // what cannot be read shows as U+FFFD
	name := strings.ToValidUTF8(string(unquoted), "\uFFFD")
	if runes := []rune(name); len(runes) > maxPathName {
		name = string(runes[:maxPathName]) + "…"
	}
	for _, r := range name {
		if r != '_' && r != '-' && r != '…' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return "[" + strconv.QuoteToGraphic(name) + "]"
		}
	}
	if name == "" {
		return `[""]`
	}
	return name
}
