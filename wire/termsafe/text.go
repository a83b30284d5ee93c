package termsafe

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// lineMax bounds what [Line] returns, in characters.
const lineMax = 500

// Line returns untrusted text on one line: without control sequences, its white
// space folded into single blanks, and not too long.
func Line(text string) string {
	line := Visible(strings.Join(strings.Fields(Strip(text)), " "))
	n := 0
	for i := range line {
		if n++; n > lineMax {
			return line[:i] + "…"
		}
	}
	return line
}

// Visible replaces tabs by blanks, and every other character that has no look of
// its own by U+FFFD, so that columns stay where they are.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return utf8.RuneError
		}
	}, text)
}

// Strip removes control sequences and control characters from text, all but
// newline and tab.
func Strip(text string) string {
	if !strings.ContainsFunc(text, stripped) && utf8.ValidString(text) {
		return text
	}
	var s Stripper
	return s.Strip([]byte(text)) + s.End()
}

// stripped reports whether r is a control character that is not shown.
func stripped(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// Stripper is [Strip] for text that comes in pieces, cut anywhere.
type Stripper struct {
	scanner scanner
	out     strings.Builder
}

// Strip returns what is shown of the next piece.
func (s *Stripper) Strip(piece []byte) string {
	s.out.Reset()
	s.scanner.scan(piece, s.do)
	return s.out.String()
}

// End returns what is shown at the end of the text.
func (s *Stripper) End() string {
	s.out.Reset()
	s.scanner.end(s.do)
	return s.out.String()
}

func (s *Stripper) do(action parser.Action, r rune) {
	if action == parser.PrintAction || action == parser.ExecuteAction && !stripped(r) {
		s.out.WriteRune(r)
	}
}
