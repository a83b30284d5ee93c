package loop

import (
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return first
}

// maxReason bounds quoted agent output, in characters.
const maxReason = 300

func cut(s string) string { return termsafe.Shorten(s, maxReason) }

// brief quotes the first line of agent output.
func brief(s string) string { return cut(termsafe.FirstLine(s)) }

// lastLine returns the last line of s that is not JSON.
func lastLine(s string) string { return strings.Join(lastLines(s, 1), "") }

// lastLines returns up to n such lines.
func lastLines(s string, n int) (last []string) {
	for _, line := range slices.Backward(strings.Split(s, "\n")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '{' && len(last) < n {
			last = append(last, line)
		}
	}
	slices.Reverse(last)
	return last
}
