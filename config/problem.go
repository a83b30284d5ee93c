package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// maxProblems is how many mistakes are shown at once.
const maxProblems = 20

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
		Message: printable.Visible(fmt.Sprintf(format, args...)),
		excerpt: printable.Excerpt(number, string(line), from, to),
	}
}

// joinProblems makes one error of many, or nil of none. Whoever made more
// mistakes than can be read is told the first ones.
func joinProblems(problems []error) error {
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems:maxProblems], errors.New("and more mistakes"))
	}
	return errors.Join(problems...)
}
