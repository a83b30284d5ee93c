package pullrequest

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// maxRows is the number of tasks in a body: a forge takes 65,536 characters, and a command line a little more.
	maxRows = 40
	maxCell = 100
	// maxChecks is the number of checks in a row.
	maxChecks = 4
)

// bodyOf describes the tasks of commits by their receipts, in Markdown.
func bodyOf(tasks []backlog.Task, commits int) string {
	var b strings.Builder
	if len(tasks) > 0 {
		_, _ = fmt.Fprintf(&b, "| task | title | checks | model | cost of the run |\n|---|---|---|---|---|\n")
	}
	for i, t := range tasks {
		if i == maxRows {
			_, _ = fmt.Fprintf(&b, "\n… and %s.\n", host.Count(len(tasks)-i, "more task"))
			break
		}
		r := t.Receipt
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(t.Slug), code(t.Title), checksOf(r.Checks), code(r.Model), dollars(r.CostUSD, r.CostEstimated))
	}
	if len(tasks) > 0 {
		_, _ = fmt.Fprintln(&b)
	}
	_, _ = fmt.Fprintf(&b, "%s, %s%s. Made with [docker ralph](https://github.com/docker-ralph/docker-ralph).\n",
		host.Count(len(tasks), "task"), host.Count(commits, "commit"), totalOf(tasks))
	return b.String()
}

func checksOf(checks []runlog.Check) string {
	var cells []string
	for i, c := range checks {
		if i == maxChecks {
			cells = append(cells, fmt.Sprintf("and %d more", len(checks)-i))
			break
		}
		took := time.Duration(c.Seconds * float64(time.Second)).Round(time.Second / 10)
		cells = append(cells, fmt.Sprintf("%s passed in %s", code(c.Command), took))
	}
	return strings.Join(cells, "<br>")
}

// totalOf adds up the costs of runs, each of which can have completed several tasks.
func totalOf(tasks []backlog.Task) string {
	type run struct {
		loop string
		n    int
	}
	seen := map[run]bool{}
	total, known, estimated := 0.0, false, false
	for _, t := range tasks {
		r := t.Receipt
		if key := (run{r.Loop, r.Run}); r.CostUSD != nil && !seen[key] {
			seen[key], known = true, true
			total, estimated = total+*r.CostUSD, estimated || r.CostEstimated
		}
	}
	if !known {
		return ""
	}
	return ", " + dollars(&total, estimated)
}

func dollars(usd *float64, estimated bool) string {
	if usd == nil {
		return ""
	}
	text := fmt.Sprintf("$%.2f", *usd)
	if estimated {
		text += " (estimated)"
	}
	return text
}

// code returns text of agents as a code span in a table. Nothing in one is Markdown, a mention or a reference, which
// could close an issue.
func code(text string) string {
	text = strings.TrimSpace(termsafe.Shorten(termsafe.Line(text), maxCell))
	if text == "" {
		return ""
	}
	bar := `\|`
	if strings.Contains(text, `\`) { // it could escape that of the bar, which would end the cell
		bar = "¦"
	}
	return "`" + strings.NewReplacer("|", bar, "`", "'").Replace(text) + "`"
}
