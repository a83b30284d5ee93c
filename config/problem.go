package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

const (
	// excerptWidth is how much of a long line is shown, in columns.
	excerptWidth = 100
	// maxProblems is how many mistakes are shown at once.
	maxProblems = 20
)

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
	number := d.line(at.start)
	lineStart, lineEnd := d.starts[number-1], len(d.text)
	if number < len(d.starts) {
		lineEnd = d.starts[number] - 1
	}
	line := bytes.TrimSuffix(d.text[lineStart:lineEnd], []byte("\r"))
	from := min(at.start-lineStart, len(line))
	to := max(min(at.end-lineStart, len(line)), from)
	return &FileError{
		Path:    d.path,
		Line:    number,
		Column:  utf8.RuneCount(line[:from]) + 1,
		Message: printable(fmt.Sprintf(format, args...)),
		excerpt: excerpt(number, line, from, to),
	}
}

// excerpt shows a line with a part of it marked; of a long line, only what is
// around the mark.
func excerpt(number int, line []byte, from, to int) string {
	// No character that is seen has more than four bytes.
	const reach = 4 * excerptWidth
	width := runewidth.Condition{}
	before := printable(string(line[max(from-reach, 0):from]))
	marked := printable(string(line[from:min(to, from+reach)]))
	after := printable(string(line[to:min(len(line), to+reach)]))
	if width.StringWidth(before+marked+after) > excerptWidth {
		if columns := width.StringWidth(before); columns > excerptWidth/2 {
			before = "…" + width.TruncateLeft(before, columns-excerptWidth/2, "")
		}
		marked = width.Truncate(marked, excerptWidth/2, "…")
		after = width.Truncate(after, max(excerptWidth-width.StringWidth(before+marked), 0), "…")
	}
	label := fmt.Sprintf("%5d", number)
	return fmt.Sprintf("%s | %s\n%s | %s%s", label, before+marked+after, strings.Repeat(" ", len(label)),
		strings.Repeat(" ", width.StringWidth(before)), strings.Repeat("^", max(width.StringWidth(marked), 1)))
}

// joinProblems makes one error of many, or nil of none. Whoever made more
// mistakes than can be read is told the first ones.
func joinProblems(problems []error) error {
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems:maxProblems], errors.New("and more mistakes"))
	}
	return errors.Join(problems...)
}

// printable replaces tabs by blanks, and whatever has no look of its own by
// the sign for a character that cannot be shown: the text is a stranger's, and
// nothing in it may reach the terminal as a command.
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
