package config

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/loopgridio/loopgrid-mcp/internal/address"
)

func parseBaseURL(text string) (*url.URL, *fault) {
	unusable := &fault{
		"is not an http or https address",
		"Set it to the address of LoopGrid, for example " + lookUp(baseURL).Default + ".",
	}

	if meant := withScheme(text); meant != "" {
		unusable.remedy = "Did you mean " + meant + "?"
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || (u.Scheme != "http" && u.Scheme != "https") || !isHost(u) {
		return nil, unusable
	}

	var extra []string
	if u.User != nil {
		extra = append(extra, "a user name or password")
	}
	if u.RawQuery != "" || u.ForceQuery {
		extra = append(extra, "a query")
	}
	// The parser forgets an empty fragment; the sign itself would cut off paths.
	if strings.Contains(text, "#") {
		extra = append(extra, "a fragment")
	}
	if extra != nil {
		return nil, &fault{
			"holds " + strings.Join(extra, " and ") + ", which is never sent",
			"Keep the scheme, the host, the port and the base path only; a key belongs in " + serviceKey + ".",
		}
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return nil, &fault{"holds a path with . or .. in it", "Write the base path as the service sees it."}
		}
	}

	return &url.URL{
		Scheme:  u.Scheme,
		Host:    strings.TrimSuffix(u.Host, ":"),
		Path:    strings.TrimRight(u.Path, "/"),
		RawPath: strings.TrimRight(u.RawPath, "/"),
	}, nil
}

// withScheme returns the address that a host and a port without a scheme probably
// stand for, "" where the text is something else: it may be a key.
func withScheme(text string) string {
	hostPort, _, _ := strings.Cut(text, "/")
	host, port, err := net.SplitHostPort(hostPort)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || strings.ContainsFunc(hostPort, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]", r)
	}) {
		return ""
	}
	if address.IsLoopback(host) {
		return "http://" + hostPort
	}

	return "https://" + hostPort
}

// isHost says whether the URL names a host and, if any, a port that can exist.
func isHost(u *url.URL) bool {
	if u.Hostname() == "" || strings.ContainsAny(u.Hostname(), `!"$&'()*+,;<=> `) {
		return false
	}
	if u.Port() == "" {
		return true
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)

	return err == nil && port > 0
}

func parseWorkspace(text string) (string, *fault) {
	switch {
	case utf8.RuneCountInString(text) > maxWorkspace:
		return "", &fault{"has more than 64 characters", "Set it to the id of a workspace of LoopGrid."}
	case !isPlain(text) || strings.ContainsFunc(text, isInvisible) || strings.Contains(text, "/") || text == "." || text == "..":
		return "", &fault{
			"is not the id of a workspace",
			"Use letters, digits, - and _; control and invisible characters, / and a lone . or .. are refused.",
		}
	}

	return text, nil
}

// parseBytes reads a whole number as Python does, whose spellings 0.1.0 took.
func parseBytes(text string) (int64, *fault) {
	// The reader of a file asks for one byte more than the limit.
	const most = math.MaxInt64 - 1

	number, err := strconv.ParseInt(joinDigits(text), 10, 64)
	if errors.Is(err, strconv.ErrRange) && number > 0 {
		return most, nil
	}
	if err != nil || number <= 0 {
		return 0, &fault{
			"is not a whole number greater than zero",
			"Set it to a number of bytes, for example " + lookUp(maxEvidenceBytes).Default + ".",
		}
	}

	return min(number, most), nil
}

// parseTimeout reads a number of seconds as Python does, whose spellings 0.1.0
// took.
func parseTimeout(text string) (time.Duration, *fault) {
	seconds, err := strconv.ParseFloat(joinDigits(text), 64)
	// Go alone reads hexadecimal fractions.
	if err != nil || strings.ContainsAny(text, "xX") || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return 0, &fault{"is not a number", "Set it to a number of seconds without a unit, for example 20 or 0.5."}
	}

	timeout := maxTimeout + 1
	if seconds <= maxTimeout.Seconds() {
		timeout = time.Duration(seconds * float64(time.Second))
	}
	if timeout <= 0 || timeout > maxTimeout {
		return 0, &fault{
			"is out of range",
			"Set it to a number of seconds greater than 0 and at most 86400, for example " + lookUp(timeoutSeconds).Default + ".",
		}
	}

	return timeout, nil
}

// joinDigits drops the underscores that stand between two digits, as Python's
// numbers may have them. Any other underscore stays, so that the number is
// refused.
func joinDigits(text string) string {
	isDigit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }

	joined := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] != '_' || !isDigit(i-1) || !isDigit(i+1) {
			joined = append(joined, text[i])
		}
	}

	return string(joined)
}

// parseSwitch never takes an unclear word as "on": a switch opens a gate.
func parseSwitch(text string) (bool, *fault) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	}

	return false, &fault{"is neither on nor off", "Set it to true or false."}
}

func parseReviewer(text string) (string, *fault) {
	switch {
	case utf8.RuneCountInString(text) > maxReviewer:
		return "", &fault{"has more than 128 characters", "Use a shorter name."}
	case !isPlain(text):
		return "", &fault{
			"holds a line break, a control character or bytes that are not UTF-8",
			"Use a name on one line.",
		}
	}

	return text, nil
}

// choice returns the rule of a setting that is one of a few words.
func choice[T ~string](name string) func(string) (T, *fault) {
	return func(text string) (T, *fault) {
		choices := lookUp(name).Choices
		if text = strings.ToLower(text); slices.Contains(choices, text) {
			return T(text), nil
		}

		return "", &fault{"is not one of " + strings.Join(choices, ", "), "Set it to one of them, or remove it."}
	}
}

func parseLogLevel(text string) (slog.Level, *fault) {
	word, wrong := choice[string](logLevel)(text)
	if wrong != nil {
		return 0, wrong
	}

	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}[word], nil
}

func isInvisible(r rune) bool { return unicode.Is(unicode.Cf, r) }

// isPlain says whether a text is valid UTF-8 on one line without control
// characters. U+2028 and U+2029 break lines too: the published verifier cannot
// read evidence whose actor holds one.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	})
}
