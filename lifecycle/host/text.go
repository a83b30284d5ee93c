package host

import (
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Quote quotes the name of a file with characters that are unsafe for a terminal.
func Quote(name string) string { return termsafe.Name(name) }

// Count formats a number of things: "1 file", "2 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Some lists the first names.
func Some(names []string) string {
	var first []string
	for _, name := range names[:min(len(names), ShownLines)] {
		first = append(first, Quote(name))
	}
	text := strings.Join(first, ", ")
	if more := len(names) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ShownLines limits lists in messages.
const ShownLines = 5
