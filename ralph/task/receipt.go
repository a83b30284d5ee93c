package task

import (
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// receiptLines returns the lines of a receipt; none without one.
func receiptLines(r *backlog.Receipt) (lines []string) {
	if r == nil {
		return nil
	}
	line := func(label, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-9s", label)+oneLine(fmt.Sprintf(format, args...)))
	}
	named := func(label, value string) {
		if value != "" {
			line(label, "%s", value)
		}
	}
	named("Done:", r.Time.UTC().Format(time.DateTime))
	line("Attempt:", "%d", r.Attempt)
	named("Commit:", r.Commit)
	named("Tree:", r.Tree)
	named("Image:", r.Image)
	named("Loop:", r.Loop)
	line("Run:", "%d, %s", r.Run, duration(r.Seconds))
	for _, c := range r.Checks {
		line("Check:", "%s, %s, %s", c.Command, outcomeOf(c.Failure), duration(c.Seconds))
	}
	named("Model:", r.Model)
	if r.Tokens != nil {
		line("Tokens:", "%d", r.Tokens.Total())
	}
	if r.CostUSD != nil {
		estimated := ""
		if r.CostEstimated {
			estimated = " (estimated)"
		}
		line("Cost:", "$%.4f%s", *r.CostUSD, estimated)
	}
	for _, b := range r.Blocked {
		line("Blocked:", "%s (%d)", b.Target(), b.Times)
	}
	return lines
}

// outcomeOf describes a check by its failure.
func outcomeOf(failure string) string {
	if failure == "" {
		return "exit code 0"
	}
	return failure
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second / 10)
}
