package termsafe

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name returns the name of a file for a message. It is quoted if it has line breaks, control
// characters or invalid UTF-8, which could hide or forge what a message says.
func Name(name string) string {
	strange := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}
