package termsafe

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Word returns the name of a file as a word of a shell's command line, for a command in a message.
func Word(name string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./@:=+,^", r)
	}
	switch quoted := Name(name); {
	case name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !safe(r) }):
		return name
	case quoted != name:
		inner := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
		return "$'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// Name returns the name of a file for a message. It is quoted if it has line breaks, control
// characters or invalid UTF-8, which could hide or forge what a message says.
func Name(name string) string {
	strange := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}
