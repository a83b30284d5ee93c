// Package hint lets an error carry the remedy beside the cause. The error stays
// one short line; the program that prints it adds the hints, one a line.
package hint

import (
	"errors"
	"fmt"
	"io"
)

type hinted struct {
	error
	text string
}

func (h hinted) Unwrap() error { return h.error }

// Wrap returns err with a hint that says what to do next. The hint reads as a
// sentence without a full stop, e.g. `run "docker ralph repair"`. It returns nil
// if err is nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }

// Reword returns err with another text.
func Reword(err error, text string) error { return reworded{err, text} }

// Of returns the hints of an error and of the errors that it wraps, outermost
// first, each once.
func Of(err error) []string {
	var all []string
	seen := map[string]bool{}
	collect(err, func(text string) {
		if !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	})
	return all
}

func collect(err error, add func(string)) {
	for err != nil {
		if h, ok := err.(hinted); ok { //nolint:errorlint // every layer is looked at in turn
			add(h.text)
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				collect(e, add)
			}
			return
		}
		err = errors.Unwrap(err)
	}
}

// Print writes an error as users see it: "Error: …", then a line per hint.
func Print(w io.Writer, err error) {
	_, _ = fmt.Fprintln(w, "Error:", err)
	for _, text := range Of(err) {
		_, _ = fmt.Fprintln(w, "Hint:", text)
	}
}
