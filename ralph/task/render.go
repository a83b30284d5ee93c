package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// record is a task as markdown shows it: one "key: value" line per field,
// made for agents, so it spends few tokens. Empty fields are left out.
type record struct {
	slug, title, priority, status, category, spec, ref string
	assignee, lease, retries, attempt                  string
	deps, steps                                        []string
	results                                            []result
}

// result is what a blocker left behind, as JSON.
type result struct{ slug, json string }

// claimableRecord shows a task that is free: whoever held it has lost it.
func claimableRecord(t backlog.Task) record {
	r := listedRecord(t)
	r.status, r.assignee = backlog.StatusOpen, ""
	return r
}

func listedRecord(t backlog.Task) record {
	return record{
		slug: t.Slug, title: t.Title, priority: strconv.Itoa(t.Priority), status: t.Status, category: t.Category,
		spec: t.SpecRef, ref: t.Ref, assignee: t.Assignee, deps: t.Deps, steps: t.Steps,
	}
}

func claimedRecord(t backlog.Task) record {
	r := listedRecord(t)
	r.lease, r.retries = t.LeaseExpiresAt, strconv.Itoa(t.RetryCount)
	for _, b := range t.Blockers {
		if b.Result != "" {
			r.results = append(r.results, result{slug: b.Slug, json: compactJSON(b.Result)})
		}
	}
	return r
}

func records(tasks []backlog.Task, convert func(backlog.Task) record) []record {
	var out []record
	for _, t := range tasks {
		out = append(out, convert(t))
	}
	return out
}

// printSections prints records with an empty line between them.
func (s *session) printSections(list []record) {
	for i, r := range list {
		if i > 0 {
			s.print("\n")
		}
		s.printSection(r)
	}
}

func (s *session) printSection(r record) {
	s.printf("## Task %s\nid: %s\n", r.slug, r.slug)
	for _, line := range [][2]string{
		{"title", r.title},
		{"priority", r.priority},
		{"status", r.status},
		{"category", r.category},
		{"spec", r.spec},
		{"ref", r.ref},
		{"assignee", r.assignee},
		{"lease_expires_at", r.lease},
		{"retry_count", r.retries},
		{"attempt", r.attempt},
		{"deps", strings.Join(r.deps, ", ")},
	} {
		if line[1] != "" {
			s.printf("%s: %s\n", line[0], line[1])
		}
	}
	if len(r.steps) > 0 {
		s.print("steps:\n")
		for _, step := range r.steps {
			s.printf("- %s\n", step)
		}
	}
	if len(r.results) > 0 {
		s.print("blocker_results:\n")
		for _, result := range r.results {
			s.printf("- %s: %s\n", result.slug, result.json)
		}
	}
}

// compactJSON puts JSON on one line; other text becomes a JSON string.
func compactJSON(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) == nil {
		return harmlessJSON(b.String())
	}
	b.Reset()
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can always be encoded
	return harmlessJSON(strings.TrimSuffix(b.String(), "\n"))
}

// harmlessJSON writes the control characters that JSON allows in strings as
// escapes. What is printed loses control sequences, and these may reach up to
// a quotation mark or a brace behind them.
func harmlessJSON(text string) string {
	isControl := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if !strings.ContainsFunc(text, isControl) || !json.Valid([]byte(text)) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isControl(r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			_, _ = b.WriteRune(r)
		}
	}
	return b.String()
}

// printTable prints one line per task, nothing if there is none.
func (s *session) printTable(tasks []backlog.Line) {
	if len(tasks) == 0 {
		return
	}
	widths := []int{20, 1, 8, 5, 35}
	s.printRow(widths, "ID", "P", "S", "CAT", "TITLE", "AGENT")
	for _, t := range tasks {
		category, assignee := t.Category, t.Assignee
		if category == "" {
			category = "-"
		}
		if !t.Assigned {
			assignee = "-"
		}
		s.printRow(widths, t.Slug, strconv.Itoa(t.Priority), t.Status, category, t.Title, assignee)
	}
}

// printRow prints one line of a table. Its fields are at least as wide, in
// characters, as widths says; the last one is not padded. Tables of thousands
// of rows should not take longer to print than to read.
func (s *session) printRow(widths []int, fields ...string) {
	for i, field := range fields {
		width := len(field)
		if !isPlain(field) {
			field = termsafe.Strip(oneLine(field))
			width = utf8.RuneCountInString(field)
		}
		_, _ = s.out.WriteString(field)
		if i < len(widths) {
			_, _ = s.out.WriteString(blanks[:max(widths[i]-width, 0)])
			_ = s.out.WriteByte(' ')
		}
	}
	_ = s.out.WriteByte('\n')
}

const blanks = "                                                                "

// isPlain says whether a text is of printable ASCII characters only.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(text)
}

// printDetails prints everything about one task, for people.
func (s *session) printDetails(t backlog.Task, withResults bool) {
	retries := ""
	if t.RetryCount != 0 {
		retries = strconv.Itoa(t.RetryCount)
	}
	for _, line := range [][2]string{
		{"ID:", t.Slug},
		{"Title:", t.Title},
		{"Status:", t.Status},
		{"Priority:", strconv.Itoa(t.Priority)},
		{"Category:", t.Category},
		{"Description:", t.Description},
		{"Spec:", t.SpecRef},
		{"Ref:", t.Ref},
		{"Assignee:", t.Assignee},
		{"Lease:", t.LeaseExpiresAt},
		{"Retries:", retries},
		{"Fail reason:", t.FailReason},
		{"Result:", harmlessJSON(t.Result)},
		{"Created:", t.CreatedAt},
		{"Updated:", t.UpdatedAt},
		{"Deleted:", t.DeletedAt},
	} {
		if line[1] != "" {
			s.printf("%-13s%s\n", line[0], line[1])
		}
	}
	var stepLines, depLines, resultLines []string
	for i, step := range t.Steps {
		stepLines = append(stepLines, strconv.Itoa(i+1)+". "+step)
	}
	for _, b := range t.Blockers {
		depLines = append(depLines, b.Slug+" ("+b.Status+")")
		if withResults && b.Result != "" {
			resultLines = append(resultLines, b.Slug+": "+harmlessJSON(b.Result))
		}
	}
	s.printBlock("Steps:", stepLines)
	s.printBlock("Dependencies:", depLines)
	s.printBlock("Blocker Results:", resultLines)
}

func (s *session) printBlock(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	s.printf("\n%s\n", heading)
	for _, line := range lines {
		s.printf("  %s\n", line)
	}
}
