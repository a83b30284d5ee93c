package task

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// record is a task in markdown, with one "key: value" line per field. To save
// tokens, empty fields are omitted.
type record struct {
	slug, title, priority, status, category, spec, ref string
	assignee, lease, retries, attempt                  string
	deps, steps                                        []string
	results                                            []result
	answered                                           []backlog.Question
}

// result is the result of a blocker, as JSON.
type result struct{ slug, json string }

// claimableRecord shows a task with an expired lease as open.
func claimableRecord(t backlog.Task) record {
	r := listedRecord(t)
	r.status, r.assignee = backlog.StatusOpen, ""
	return r
}

func listedRecord(t backlog.Task) record {
	return record{
		slug: t.Slug, title: t.Title, priority: strconv.Itoa(t.Priority), status: t.Status, category: t.Category,
		spec: t.SpecRef, ref: t.Ref, assignee: t.Assignee, deps: t.Deps, steps: t.Steps,
		answered: t.Answered(),
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
	if len(r.answered) > 0 {
		s.print("answers:\n")
		for _, q := range r.answered {
			s.printf("- %s: %s\n", oneLine(q.Text), oneLine(q.Answer))
		}
	}
}

// compactJSON compacts JSON; other text becomes a JSON string.
func compactJSON(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) == nil {
		return termsafe.JSON(b.String())
	}
	b.Reset()
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can always be encoded
	return termsafe.JSON(strings.TrimSuffix(b.String(), "\n"))
}

// printTable prints one line per task.
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

// printRow prints one line of a table. The last field is not padded. It avoids
// fmt, which is slow for thousands of rows.
func (s *session) printRow(widths []int, fields ...string) {
	for i, field := range fields {
		field = termsafe.Strip(oneLine(field))
		_, _ = s.out.WriteString(field)
		if i < len(widths) {
			_, _ = s.out.WriteString(strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(field), 0)+1))
		}
	}
	_ = s.out.WriteByte('\n')
}

func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(text)
}

// printDetails prints all fields of a task.
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
		{"Result:", termsafe.JSON(t.Result)},
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
			resultLines = append(resultLines, b.Slug+": "+termsafe.JSON(b.Result))
		}
	}
	s.printBlock("Steps:", stepLines)
	s.printBlock("Questions:", questionLines(t))
	s.printBlock("Dependencies:", depLines)
	s.printBlock("Blocker Results:", resultLines)
}

func questionLines(t backlog.Task) []string {
	var lines []string
	for _, q := range t.Answered() {
		by := ""
		if q.Defaulted {
			by = " (default)"
		}
		lines = append(lines, oneLine(q.Text), "  Answer: "+oneLine(q.Answer)+by)
	}
	if q, ok := t.Pending(); ok {
		lines = append(lines, oneLine(q.Text))
		for _, o := range q.Choices() {
			lines = append(lines, "  - "+oneLine(o)+defaultMark(q, o))
		}
	}
	return lines
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
