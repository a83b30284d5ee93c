package termsafe

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// excerptWidth bounds the displayed part of a line, in columns.
const excerptWidth = 100

// Excerpt formats a numbered line with line[from:to] underlined. Of a long line, it has
// only the part around the mark.
func Excerpt(number int, line string, from, to int) string {
	const reach = 4 * excerptWidth // a character has up to four bytes
	width := runewidth.Condition{}
	before := Visible(line[max(from-reach, 0):from])
	marked := Visible(line[from:min(to, from+reach)])
	after := Visible(line[to:min(len(line), to+reach)])
	if width.StringWidth(before+marked+after) > excerptWidth {
		if columns := width.StringWidth(before); columns > excerptWidth/2 {
			before = "…" + width.TruncateLeft(before, columns-excerptWidth/2, "")
		}
		marked = width.Truncate(marked, excerptWidth/2, "…")
		after = width.Truncate(after, max(excerptWidth-width.StringWidth(before+marked), 0), "…")
	}
	label := fmt.Sprintf("%5d", number)
	return fmt.Sprintf("%s | %s\n%*s | %*s%s", label, strings.TrimRight(before+marked+after, " "), len(label), "",
		width.StringWidth(before), "", strings.Repeat("^", max(width.StringWidth(marked), 1)))
}
