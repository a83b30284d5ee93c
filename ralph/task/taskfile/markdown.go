package taskfile

import (
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

var (
	headingLine = lazyregexp.New(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$`)
	boxLine     = lazyregexp.New(`^([ \t>]*)(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?\[([ xX/~-])\]\*?[ \t]+(.*)$`)
	fenceLine   = lazyregexp.New("^[ \t>]*(```|~~~)")
	comment     = lazyregexp.New(`(?s)<!--.*?(?:-->|$)`)
	// blockLine does not continue the text of an item.
	blockLine = lazyregexp.New("^[ \t>]*(?:[-*+|>]|[0-9]{1,9}[.)][ \t]|```|~~~)")
)

// box is an item of a list with a check box.
type box struct {
	line, end int // the lines of its text
	indent    int
	done      bool
	text      string
	details   []string // the lines below it
	headings  []string // by level, from the first; can be empty
	parent    int      // the index of the item in whose list it is; -1 without one
}

// boxReader finds the check boxes of a Markdown file.
type boxReader struct {
	found    []box
	headings []string
	fence    string // of the current code block
	open     []int  // the boxes that the next line can belong to, outermost first
}

// boxes returns the check boxes of a Markdown file. Code blocks and comments have none.
func boxes(text string) []box {
	text = comment().ReplaceAllStringFunc(text, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	r := boxReader{headings: make([]string, maxHeading)}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		r.line(n, line)
	}
	return r.found
}

// maxHeading is the deepest level of a heading.
const maxHeading = 6

func (r *boxReader) line(n int, line string) {
	m := fenceLine().FindStringSubmatch(line)
	switch {
	case m != nil && r.fence == "":
		r.fence = m[1]
	case m != nil && r.fence == m[1]:
		r.fence = ""
	case r.fence != "":
	default:
		if m := headingLine().FindStringSubmatch(line); m != nil {
			level := len(m[1])
			r.headings[level-1] = m[2]
			clear(r.headings[level:])
			r.open = nil
			return
		}
		if m := boxLine().FindStringSubmatch(line); m != nil {
			r.box(box{line: n, end: n, indent: columns(m[1]), done: m[2] == "x" || m[2] == "X", text: m[3], parent: -1})
			return
		}
	}
	r.detail(n, line)
}

func (r *boxReader) box(b box) {
	b.headings = slices.Clone(r.headings)
	r.leave(b.indent)
	if len(r.open) > 0 {
		b.parent = r.open[len(r.open)-1]
	}
	r.open = append(r.open, len(r.found))
	r.found = append(r.found, b)
}

// leave ends the items that a line with this indentation is not part of.
func (r *boxReader) leave(indent int) {
	for len(r.open) > 0 && r.found[r.open[len(r.open)-1]].indent >= indent {
		r.open = r.open[:len(r.open)-1]
	}
}

// detail adds a line to the item that it is part of: to its text, or below it.
func (r *boxReader) detail(n int, line string) {
	blank := strings.TrimSpace(line) == ""
	if len(r.open) > 0 {
		last := &r.found[r.open[len(r.open)-1]]
		if !blank && n == last.end+1 && r.fence == "" && !blockLine().MatchString(line) {
			last.text += " " + strings.TrimSpace(line)
			last.end = n
			return
		}
	}
	if !blank {
		r.leave(columns(line))
	}
	if len(r.open) > 0 {
		last := &r.found[r.open[len(r.open)-1]]
		last.details = append(last.details, line)
	}
}

// columns returns the width of the white space that a line begins with.
func columns(line string) int {
	width := 0
	for _, r := range line {
		switch r {
		case ' ', '>':
			width++
		case '\t':
			width += 4
		default:
			return width
		}
	}
	return width
}

// dedent returns the lines below a box without their common indentation.
func dedent(lines []string) string {
	common := -1
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if common < 0 || indent < common {
			common = indent
		}
	}
	var b strings.Builder
	for _, line := range lines {
		_, _ = b.WriteString(line[min(max(common, 0), len(line)):])
		_ = b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

// readMarkdown reads a check list. An item depends on those of the list below it.
func readMarkdown(r *reader, list []box) {
	ids, below := make([]string, len(list)), map[int][]string{}
	for i, b := range list {
		if plain(b.text) == "" {
			r.drop("line %d: check box without text", b.line)
			continue
		}
		ids[i] = r.textID(plain(b.text))
		below[b.parent] = append(below[b.parent], ids[i])
	}
	for i, b := range list {
		if ids[i] == "" {
			continue
		}
		t := backlog.NewTask{Slug: ids[i], Title: plain(b.text), Description: dedent(b.details), Done: b.done, Deps: below[i]}
		t.Priority, t.Category = headingPriority(b.headings)
		r.add(b.line, t)
	}
}

// plain returns a text without bold type and strike-through.
func plain(text string) string {
	return strings.TrimSpace(strings.NewReplacer("**", "", "~~", "").Replace(text))
}

// headingPriority returns the priority of the innermost heading that names one, and the innermost heading below the
// first level that names none.
func headingPriority(headings []string) (priority int, category string) {
	priority = backlog.DefaultPriority
	for level, h := range headings {
		if h == "" {
			continue
		}
		if n, ok := priorityOf(h); ok {
			priority, category = n, ""
		} else if level > 0 {
			category = plain(h)
		}
	}
	return priority, category
}

var (
	wordPriority   = lazyregexp.New(`(?i)\b(critical|urgent|highest|high|medium|normal|lowest|low)\b`)
	numberPriority = lazyregexp.New(`(?i)(?:\bpriority:?[ \t]+p?|\bp)([0-9])\b`)
)

// priorityOf returns the priority that a heading names, such as "High priority", "P1" or "Priority 2: later".
func priorityOf(heading string) (int, bool) {
	named := numberPriority().FindStringSubmatch(heading)
	if named == nil && (strings.Contains(strings.ToLower(heading), "priority") || isWord(heading)) {
		named = wordPriority().FindStringSubmatch(heading)
	}
	if named == nil {
		return 0, false
	}
	return parsePriority(named[1])
}

// isWord reports whether a heading is the name of a priority only.
func isWord(heading string) bool {
	_, ok := priorityWords()[strings.ToLower(strings.Trim(plain(heading), ": "))]
	return ok
}
