package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxProblems is how many errors are shown at once.
const maxProblems = 20

// FileError is an error in a configuration file. Its text has the position, the
// message, and an excerpt with the position marked.
type FileError struct {
	// Path is the file.
	Path string
	// Line and Column count from 1, Column in characters.
	Line, Column int
	// Message is the error without position and excerpt.
	Message string

	excerpt string
}

// Error returns several lines: place and message, the line, the mark.
func (e *FileError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s\n%s", e.Path, e.Line, e.Column, e.Message, e.excerpt)
}

// span is a part of a file's text, in bytes.
type span struct{ start, end int }

// problem returns an error about a part of the document.
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
		Message: termsafe.Visible(fmt.Sprintf(format, args...)),
		excerpt: termsafe.Excerpt(number, string(line), from, to),
	}
}

// settingProblem reports a bad value and keeps the hints of err.
func (d document) settingProblem(at span, a assignment, err error) error {
	var problem error = d.problem(at, "%s: %v", a.path(), err)
	for _, h := range hint.Of(err) {
		problem = hint.Wrap(problem, "%s", h)
	}
	return problem
}

// joinProblems joins the first maxProblems errors.
func joinProblems(problems []error) error {
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems:maxProblems], errors.New("too many errors"))
	}
	return errors.Join(problems...)
}
