package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// excerptWidth is how much of a long line is shown, in columns.
const excerptWidth = 100

// FileError is a mistake in a configuration file. Its text has the place, what
// is wrong, and the line with the spot marked below.
type FileError struct {
	// Path is the file.
	Path string
	// Line and Column count from 1, Column in characters.
	Line, Column int
	// Message tells what is wrong, without place and excerpt.
	Message string

	excerpt string
}

// Error returns several lines: place and message, the line, the mark.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.Path, e.Line, e.Column, e.Message, e.excerpt)
}

// span is a part of a file's text, in bytes.
type span struct{ start, end int }

// problem marks one part of the document.
func (d document) problem(at span, format string, args ...any) *FileError {
	at.start = min(max(at.start, 0), len(d.text))
	lineStart := bytes.LastIndexByte(d.text[:at.start], '\n') + 1
	lineEnd := len(d.text)
	if i := bytes.IndexByte(d.text[at.start:], '\n'); i >= 0 {
		lineEnd = at.start + i
	}
	line := bytes.TrimSuffix(d.text[lineStart:lineEnd], []byte("\r"))
	from := min(at.start-lineStart, len(line))
	to := max(min(at.end-lineStart, len(line)), from)
	e := &FileError{
		Path:    d.path,
		Line:    bytes.Count(d.text[:lineStart], []byte("\n")) + 1,
		Column:  utf8.RuneCount(line[:from]) + 1,
		Message: fmt.Sprintf(format, args...),
	}
	e.excerpt = excerpt(e.Line, string(line[:from]), string(line[from:to]), string(line[to:]))
	return e
}

// excerpt shows a line with its middle marked. The text is a stranger's:
// nothing in it may reach the terminal as a command.
func excerpt(number int, before, marked, after string) string {
	width := runewidth.Condition{}
	before, marked, after = printable(before), printable(marked), printable(after)
	if width.StringWidth(before) > excerptWidth/2 {
		before = "…" + width.TruncateLeft(before, width.StringWidth(before)-excerptWidth/2, "")
	}
	marked = width.Truncate(marked, excerptWidth/2, "…")
	after = width.Truncate(after, max(excerptWidth-width.StringWidth(before+marked), 0), "…")
	label := fmt.Sprintf("%5d", number)
	return fmt.Sprintf("%s | %s\n%s | %s%s", label, before+marked+after, strings.Repeat(" ", len(label)),
		strings.Repeat(" ", width.StringWidth(before)), strings.Repeat("^", max(width.StringWidth(marked), 1)))
}

// printable replaces tabs by blanks, and whatever has no look of its own by
// the sign for a character that cannot be shown.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return utf8.RuneError
		}
	}, s)
}
