package evidence

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// firstInexact is 2^53: from here on not every integer is a 64-bit float, which is how JavaScript reads a number.
const firstInexact = "9007199254740992"

// HasLargeIntegers says whether a number inside value is an integer of absolute value 2^53 or more, however it is spelled
// (9007199254740993, 9007199254740993.0, 1e20). A program that reads JSON as JavaScript does may have rounded it.
func HasLargeIntegers(value jsontext.Value) bool {
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == '"':
			i = skipValue(value, i)
		case c == '-' || c >= '0' && c <= '9':
			end := skipValue(value, i)
			if isLargeInteger(string(value[i:end])) {
				return true
			}
			i = end
		default:
			i++
		}
	}
	return false
}

// isLargeInteger judges one JSON number by its digits: no float is involved.
func isLargeInteger(number string) bool {
	number = strings.TrimPrefix(number, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return false
	}
	shift := 0 // of the decimal point
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil { // beyond any int
			return exponent[0] != '-'
		}
	}
	significant := strings.TrimRight(digits, "0")
	// The number is significant × 10^zeros.
	zeros := shift - len(fraction) + len(digits) - len(significant)
	length := len(significant) + zeros
	switch {
	case zeros < 0: // not an integer
		return false
	case length != len(firstInexact):
		return length > len(firstInexact)
	default:
		return significant+strings.Repeat("0", zeros) >= firstInexact
	}
}
