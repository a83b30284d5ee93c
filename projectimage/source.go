package projectimage

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/solver/errdefs"

	"github.com/docker-ralph/docker-ralph/pattern"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

const (
	sourceAround = 1  // lines shown before and after the failed ones
	sourceMax    = 12 // failed lines shown; the rest of a longer step is left out
)

// failedSource returns the lines of the Dockerfile that err is about, marked,
// or "" when they cannot be told. step is BuildKit's name of the failed step.
func failedSource(name string, dockerfile []byte, err error, step string) string {
	for _, source := range errdefs.Sources(err) {
		first, last := math.MaxInt, 0
		for _, r := range source.Ranges { // one for each line
			first, last = min(first, int(r.Start.Line)), max(last, int(r.Start.Line), int(r.End.Line))
		}
		if text := excerpt(name, dockerfile, first, last); text != "" {
			return text
		}
	}
	// BuildKit of Docker 20.10 sends no lines with its errors.
	if match := parseErrorLine().FindStringSubmatch(err.Error()); match != nil {
		line, _ := strconv.Atoi(match[1])
		return excerpt(name, dockerfile, line, line)
	}
	if first, last, ok := locate(dockerfile, step); ok {
		return excerpt(name, dockerfile, first, last)
	}
	return ""
}

// parseErrorLine finds the line in an error about a Dockerfile's syntax.
var parseErrorLine = pattern.New(`(?i)dockerfile parse error (?:on )?line (\d+): `)

// tooNew tells whether err says that an engine's BuildKit does not know the
// heredocs or a flag of a Dockerfile, which could ask for a current BuildKit.
func tooNew(dockerfile []byte, err error) bool {
	match := parseErrorLine().FindStringSubmatch(err.Error())
	if match == nil {
		return false
	}
	if _, _, _, asks := parser.DetectSyntax(dockerfile); asks {
		return false
	}
	line, _ := strconv.Atoi(match[1])
	result, parseErr := parser.Parse(bytes.NewReader(dockerfile))
	return parseErr == nil && slices.ContainsFunc(result.AST.Children, func(node *parser.Node) bool {
		inHeredoc := len(node.Heredocs) > 0 && line > node.StartLine
		unknownFlag := strings.Contains(err.Error(), "Unknown flag: ") && len(node.Flags) > 0
		return node.StartLine <= line && line <= node.EndLine && (inHeredoc || unknownFlag)
	})
}

// stepNumber is what BuildKit puts before an instruction in a step's name, as in
// "[builder 2/4] RUN make".
var stepNumber = pattern.New(`^\[[^\]]*\] `)

// locate returns the first and last line of the instruction that step names.
// The name has build arguments filled in, so it need not be the instruction to
// the letter: the one that it agrees with furthest is meant.
func locate(dockerfile []byte, step string) (first, last int, _ bool) {
	want := oneSpaced(stepNumber().ReplaceAllString(step, ""))
	result, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return 0, 0, false
	}
	best, tie := 0, false
	for _, node := range result.AST.Children {
		agrees := commonPrefix(oneSpaced(node.Original), want)
		switch {
		case agrees <= len(node.Value): // no more than the instruction's name
		case agrees > best:
			best, tie = agrees, false
			first, last = node.StartLine, node.EndLine
		case agrees == best:
			tie = true
		}
	}
	return first, last, best > 0 && !tie
}

// oneSpaced returns text with every run of white space as one space.
func oneSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// commonPrefix returns how many bytes a and b begin with in common.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// excerpt shows lines first to last of the Dockerfile, counted from 1, with a
// little around them.
func excerpt(name string, dockerfile []byte, first, last int) string {
	lines := strings.Split(strings.TrimRight(string(dockerfile), "\n"), "\n")
	if first < 1 || first > len(lines) {
		return ""
	}
	last = min(max(first, last), len(lines))
	var text strings.Builder
	fmt.Fprintf(&text, "%s:%d", name, first)
	for n := max(first-sourceAround, 1); n <= min(last+sourceAround, len(lines)); n++ {
		if shown := n - first; shown >= sourceMax && n < last {
			if shown == sourceMax {
				text.WriteString("\n      | >>> …")
			}
			continue
		}
		mark := "   "
		if n >= first && n <= last {
			mark = ">>>"
		}
		text.WriteString(strings.TrimRight(fmt.Sprintf("\n %4d | %s %s", n, mark, printable.Visible(strings.TrimRight(lines[n-1], "\r"))), " "))
	}
	return text.String()
}
