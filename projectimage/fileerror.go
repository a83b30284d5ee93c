package projectimage

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// FileError is a mistake in a file of a project.
type FileError struct {
	Path         string
	Line, Column int // from 1; 0 when the mistake is in no line
	Message      string

	excerpt string
}

func (e *FileError) Error() string {
	switch {
	case e.Line == 0:
		return e.Path + ": " + e.Message
	case e.excerpt == "":
		return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Message)
	default:
		return fmt.Sprintf("%s:%d:%d: %s\n%s", e.Path, e.Line, e.Column, e.Message, e.excerpt)
	}
}

// InvalidParameter marks the error as the user's.
func (*FileError) InvalidParameter() {}

// newFileError marks the bytes from one offset to another in a line.
func newFileError(path string, number int, line string, from, to int, message string) *FileError {
	return &FileError{
		Path: path, Line: number, Column: utf8.RuneCountInString(line[:from]) + 1,
		Message: visible(message), excerpt: markedLine(number, line, from, to),
	}
}

// markedWidth is how much of a long line is shown, in columns.
const markedWidth = 100

// markedLine shows a line with a part of it marked; of a long line, only what
// is around the mark.
func markedLine(number int, line string, from, to int) string {
	const reach = 4 * markedWidth // no character that is seen has more than four bytes
	width := runewidth.Condition{}
	before := visible(line[max(from-reach, 0):from])
	marked := visible(line[from:min(to, from+reach)])
	after := visible(line[to:min(len(line), to+reach)])
	if width.StringWidth(before+marked+after) > markedWidth {
		if columns := width.StringWidth(before); columns > markedWidth/2 {
			before = "…" + width.TruncateLeft(before, columns-markedWidth/2, "")
		}
		marked = width.Truncate(marked, markedWidth/2, "…")
		after = width.Truncate(after, max(markedWidth-width.StringWidth(before+marked), 0), "…")
	}
	label := fmt.Sprintf("%5d", number)
	return fmt.Sprintf("%s | %s\n%*s | %*s%s", label, strings.TrimRight(before+marked+after, " "), len(label), "",
		width.StringWidth(before), "", strings.Repeat("^", max(width.StringWidth(marked), 1)))
}

// visible replaces tabs by blanks, and whatever has no look of its own by the
// sign for a character that cannot be shown: the text is a stranger's, and
// nothing in it may reach the terminal as a command.
func visible(text string) string {
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
