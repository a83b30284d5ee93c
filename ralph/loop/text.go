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

// lastLine returns the last line of s that is not empty.
func lastLine(s string) string { return strings.Join(lastLines(s, 1), "") }

// lastLines returns up to n such lines. A JSON object in several lines is one.
func lastLines(s string, n int) (last []string) {
	lines := strings.Split(s, "\n")
	for end := len(lines); end > 0 && len(last) < n; {
		start := end - 1
		line := strings.TrimSpace(lines[start])
		if first := lastObject(lines[:end]); line == "}" && first >= 0 {
			start = first
			line = strings.Join(strings.Fields(strings.Join(lines[start:end], " ")), " ")
		}
		if line != "" {
			last = append(last, line)
		}
		end = start
	}
	slices.Reverse(last)
	return last
}

// lastObject returns the line with which the last JSON object begins, or -1.
func lastObject(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "{") {
			return i
		}
	}
	return -1
}

// withoutEvents removes the lines that are JSON objects.
func withoutEvents(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "{") }), "\n")
}
