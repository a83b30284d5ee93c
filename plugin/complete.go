package plugin

import (
	"slices"
	"strings"
	"unicode"
)

// plainWord reports whether a word is safe in every shell. An agent can name branches
// and tasks, and completion scripts of some versions let the shell expand the words:
// it would run a command in a name.
func plainWord(word string) bool {
	return word != "" && len(word) <= wordMax && !strings.ContainsRune("-=%+", rune(word[0])) &&
		!strings.ContainsFunc(word, func(r rune) bool { return !isLetter(r) && !strings.ContainsRune("_./@:+-=,%", r) })
}

// wordMax is the maximum length of an offered word, in bytes.
const wordMax = 200

func isLetter(r rune) bool { return unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number) }

// plainText returns untrusted text as a description, without characters that a shell
// could expand.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\'':
			return '’' // as in "don't"
		case r == '"':
			return -1
		case isLetter(r), strings.ContainsRune(" _./@:+-=,%()[]#!?’…", r):
			return r
		}
		return '·'
	}, text)
}

// plainWords returns the words that are safe in every shell.
func plainWords(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !plainWord(word) })
}
