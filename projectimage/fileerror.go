package projectimage

import (
	"fmt"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// FileError is an error in a file of a project.
type FileError struct {
	Path         string
	Line, Column int // from 1; 0 for the whole file
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

// newFileError marks bytes in a line.
func newFileError(path string, number int, line string, from, to int, message string) *FileError {
	return &FileError{
		Path: path, Line: number, Column: utf8.RuneCountInString(line[:from]) + 1,
		Message: termsafe.Visible(message), excerpt: termsafe.Excerpt(number, line, from, to),
	}
}
