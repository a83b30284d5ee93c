package termsafe

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// maxLine bounds the result of [Line], in characters.
const maxLine = 500

// Line returns text as one line of bounded length: without control sequences, and with
// white space replaced by single blanks.
func Line(text string) string {
	return Shorten(Visible(strings.Join(strings.Fields(Strip(text)), " ")), maxLine)
}

// Shorten returns the first n characters of text, and "…" if there are more.
func Shorten(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return strings.ToValidUTF8(text[:i], "") + "…"
		}
	}
	return text
}

// FirstLine returns the first line of text, and "…" if there are more.
func FirstLine(text string) string {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if more {
		return strings.TrimRight(first, " \t\r:") + "…"
	}
	return first
}

// Tail returns the last n bytes of text, after "…" if there are more.
func Tail(text string, n int) string {
	if over := len(text) - n; over > 0 {
		return "…" + strings.ToValidUTF8(text[over:], "")
	}
	return text
}

// Visible replaces tabs by blanks, and other unprintable characters by U+FFFD, to keep
// columns aligned.
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

// Strip removes control sequences, and control characters except newline and tab.
func Strip(text string) string {
	if !strings.ContainsFunc(text, stripped) && utf8.ValidString(text) {
		return text
	}
	var s Stripper
	return s.Strip([]byte(text)) + s.End()
}

// stripped reports whether r is a control character that Strip removes.
func stripped(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// Stripper is [Strip] for text in pieces, which may end anywhere.
type Stripper struct {
	scanner scanner
	out     strings.Builder
}

// Strip strips the next piece.
func (s *Stripper) Strip(piece []byte) string {
	s.out.Reset()
	s.scanner.scan(piece, s.do)
	return s.out.String()
}

// End returns the rest of the text.
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
