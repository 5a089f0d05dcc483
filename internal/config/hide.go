package config

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hiddenKey replaces a key in texts.
const hiddenKey = "[service key]"

// shownRun is how many consecutive characters of a key's random part a text may
// hold by chance.
const shownRun = 8

// Hide returns the text with [service key] where it holds eight or more
// consecutive characters of the secret, as they are or as an escape of JSON, a
// percent-encoding or base64 spells them. A secret of fewer than 16 characters is
// not looked for: hiding it would tear up words.
func (s Secret) Hide(text string) string {
	const shortest = 16
	secret := s.Reveal()
	if len(secret) < shortest {
		return text
	}
	h := hider{runs: map[string]bool{}, prefix: keyPrefix(secret)}
	random := secret[len(h.prefix):]
	for i := range len(random) - shownRun + 1 {
		h.runs[random[i:i+shownRun]] = true
	}
	for _, decode := range []func(string) []letter{jsonText, percentText, plainText} {
		text = h.hide(text, decode)
	}

	return h.hideBase64(text)
}

// keyPrefix returns what all keys of LoopGrid begin with: it is no secret.
func keyPrefix(key string) string {
	return regexp.MustCompile(`^(lg_[a-z]{1,8}_)?`).FindString(key)
}

// hider knows the runs of characters that must not show.
type hider struct {
	runs   map[string]bool
	prefix string
}

// letter is one character of a decoded text, and the bytes of the text itself
// that stand for it.
type letter struct {
	char       byte
	begin, end int
}

// hide replaces the parts of the text that hold runs once it is decoded.
func (h hider) hide(text string, decode func(string) []letter) string {
	letters := decode(text)
	decoded := make([]byte, len(letters))
	for i, l := range letters {
		decoded[i] = l.char
	}
	var out strings.Builder
	done := 0
	for i := 0; i+shownRun <= len(letters); i++ {
		if !h.runs[string(decoded[i:i+shownRun])] {
			continue
		}
		first, last := i, i+shownRun-1
		for last+1 < len(letters) && h.runs[string(decoded[last+2-shownRun:last+2])] {
			last++
		}
		if strings.HasSuffix(string(decoded[:first]), h.prefix) {
			first -= len(h.prefix)
		}
		out.WriteString(text[done:max(done, letters[first].begin)])
		out.WriteString(hiddenKey)
		done, i = letters[last].end, last
	}

	return out.String() + text[done:]
}

// hideBase64 replaces words of base64 that hold a run.
func (h hider) hideBase64(text string) string {
	const shortest = 10 // characters of base64 for eight of anything
	return regexp.MustCompile(`[A-Za-z0-9+/_-]+`).ReplaceAllStringFunc(text, func(word string) string {
		if len(word) < shortest {
			return word
		}
		standard := strings.NewReplacer("-", "+", "_", "/").Replace(word)
		for start := range 4 { // what comes before may belong to another word
			whole := standard[start:]
			whole = whole[:len(whole)-len(whole)%4]
			decoded, _ := base64.StdEncoding.DecodeString(whole)
			// The last characters are a group of their own, if not a whole one.
			rest, _ := base64.RawStdEncoding.DecodeString(standard[start+len(whole):])
			for content := string(decoded) + string(rest); len(content) >= shownRun; content = content[1:] {
				if h.runs[content[:shownRun]] {
					return hiddenKey
				}
			}
		}

		return word
	})
}

func plainText(text string) []letter {
	letters := make([]letter, len(text))
	for i := range len(text) {
		letters[i] = letter{text[i], i, i + 1}
	}

	return letters
}

// jsonText decodes the escapes of JSON.
func jsonText(text string) []letter {
	var letters []letter
	for i := 0; i < len(text); {
		l := letter{text[i], i, i + 1}
		if text[i] == '\\' && i+1 < len(text) {
			l.char, l.end = text[i+1], i+2
			if end := i + 6; text[i+1] == 'u' && end <= len(text) {
				if code, err := strconv.ParseUint(text[i+2:end], 16, 16); err == nil {
					l.char, l.end = asciiOf(code), end
				}
			}
		}
		letters = append(letters, l)
		i = l.end
	}

	return letters
}

// asciiOf returns an ASCII character, or one that is in no key.
func asciiOf(code uint64) byte {
	if code >= utf8.RuneSelf {
		return 0
	}

	return byte(code)
}

// percentText decodes the escapes of addresses.
func percentText(text string) []letter {
	var letters []letter
	for i := 0; i < len(text); {
		l := letter{text[i], i, i + 1}
		if end := i + 3; text[i] == '%' && end <= len(text) {
			if code, err := strconv.ParseUint(text[i+1:end], 16, 8); err == nil {
				l.char, l.end = byte(code), end
			}
		}
		letters = append(letters, l)
		i = l.end
	}

	return letters
}
