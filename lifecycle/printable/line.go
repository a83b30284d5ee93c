package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineMax bounds what [Line] returns, in characters.
const lineMax = 200

// Line returns a stranger's text as it can stand in a line: without line ends,
// tabs, colours and all else that a terminal would obey, and not too long.
func Line(text string) string {
	var line strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > lineMax {
			line.WriteRune('…')
			break
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
			r = utf8.RuneError
		}
		line.WriteRune(r)
	}
	return line.String()
}
