package loop

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const unknown = "unknown"

// line is the receipt of an iteration, e.g.
// "Iteration 2: done auth/02 | commit 9f1c2ab | 1m2s | opus | 12,345 tokens (9,000 cached, 345 out) | $0.0400".
func line(it runlog.Iteration) string {
	parts := []string{strings.TrimSpace(fmt.Sprintf("Iteration %d: %s %s", it.N, it.Outcome, tasksOf(it)))}
	if it.Planned != nil {
		parts = append(parts, describePlan(*it.Planned))
	}
	if it.Commit != "" {
		parts = append(parts, "commit "+short(it.Commit))
	}
	parts = append(parts, took(it.Seconds))
	if it.Model != "" {
		parts = append(parts, it.Model)
	}
	parts = append(parts, tokensOf(it)+" tokens"+kindsOf(it.Tokens), costOf(it))
	if len(it.Checks) > 0 {
		parts = append(parts, checksOf(it.Checks))
	}
	if it.Retries > 0 {
		parts = append(parts, plural(it.Retries, "retry", "retries"))
	}
	if it.Denied > 0 {
		parts = append(parts, plural(it.Denied, "tool call", "tool calls")+" denied")
	}
	if it.HookErrors > 0 {
		parts = append(parts, plural(it.HookErrors, "hook error", "hook errors"))
	}
	if len(it.Refused) > 0 {
		parts = append(parts, "blocked: "+deniedLine(it.Refused))
	}
	if (it.Outcome == outcomeReleased || it.Outcome == outcomeRefused) && it.Reason != "" {
		parts = append(parts, "reason: "+it.Reason)
	}
	return strings.Join(parts, " | ")
}

// taskReason returns why the first task that is open again is not done.
func (it *iteration) taskReason() string {
	for _, slug := range slices.Concat(it.reopened, it.released, it.failedByAgent) {
		if reason := brief(it.after.tasks[slug].Reason); reason != "" {
			return termsafe.Line(reason)
		}
	}
	return ""
}

// summarize prints the loop as a table.
func (l *loop) summarize() {
	if len(l.iterations) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString(listPlan(l.totals.Planned) + "\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "RUN\tTASK\tOUTCOME\tCOMMIT\tTIME\tTOKENS\tCOST")
	for _, it := range l.iterations {
		task := tasksOf(it)
		if task == "" {
			task = "-"
		}
		commit := "-"
		if it.Commit != "" {
			commit = short(it.Commit)
		}
		_, _ = fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", it.N, task, it.Outcome, commit, took(it.Seconds), tokensOf(it), strings.TrimPrefix(costOf(it), "cost "))
	}
	_ = t.Flush() // into memory
	b.WriteString(l.totals.String())
	if len(l.Earlier) > 0 {
		fmt.Fprintf(&b, " (with %d earlier runs)", len(l.Earlier))
	}
	b.WriteString("\n")
	if l.DryRun {
		b.WriteString("Dry run: the backlog was not changed.\n")
	}
	if l.Session.Mode == agent.Build && len(l.Checks) == 0 && l.totals.Done > 0 {
		b.WriteString("No checks are configured: a task is done when the agent says so.\n")
	}
	if l.LogAt != "" {
		fmt.Fprintf(&b, "Log: %s\n", l.LogAt)
	}
	l.printf("%s", b.String())
}

// String returns the totals in one line.
func (t Totals) String() string {
	tokens, cost := stream.Grouped(t.Tokens), estimate(t.CostEstimated)+dollars(t.CostUSD)
	if t.TokensUnknown > 0 {
		tokens = atLeast(tokens, t.TokensUnknown == t.Runs)
	}
	if t.CostUnknown > 0 {
		cost = atLeast(cost, t.CostUnknown == t.Runs)
	}
	tasks := count(t.Done, "task") + " done"
	if t.Planned != nil {
		tasks = describePlan(*t.Planned)
	}
	if t.Failed > 0 {
		tasks += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.Released > 0 {
		tasks += fmt.Sprintf(", %d released", t.Released)
	}
	if t.Left != nil && *t.Left > 0 {
		tasks += fmt.Sprintf(", %d left", *t.Left)
	}
	return fmt.Sprintf("Total: %s, %s, %s | %s | tokens: %s | cost: %s",
		count(t.Runs, "run"), tasks, count(t.Commits, "commit"), took(t.Seconds), tokens, cost)
}

func atLeast(s string, all bool) string {
	if all {
		return unknown
	}
	return "at least " + s
}

func count(n int, what string) string { return plural(n, what, what+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// kindsOf returns the kinds of tokens that differ in price.
func kindsOf(t *event.Tokens) string {
	if t == nil || t.Total() == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s cached, %s out)", stream.Grouped(t.CacheRead), stream.Grouped(t.Output))
}

func checksOf(checks []runlog.Check) string {
	if last := checks[len(checks)-1]; last.Failure != "" {
		return "check " + last.Failure
	}
	return count(len(checks), "check") + " passed"
}

func tasksOf(it runlog.Iteration) string {
	return strings.ReplaceAll(termsafe.Strip(strings.Join(it.Tasks, ", ")), "\n", " ")
}

func tokensOf(it runlog.Iteration) string {
	if it.Tokens == nil {
		return unknown
	}
	return stream.Grouped(it.Tokens.Total())
}

func costOf(it runlog.Iteration) string {
	if it.CostUSD == nil {
		return "cost unknown"
	}
	return estimate(it.CostEstimated) + fmt.Sprintf("$%.4f", *it.CostUSD)
}

// estimate returns the mark of an estimated cost.
func estimate(estimated bool) string {
	if estimated {
		return "~"
	}
	return ""
}

// dollars formats an amount in cents, or with more digits below one cent.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

func took(seconds float64) string { return rough(time.Duration(seconds * float64(time.Second))) }

// short abbreviates a commit ID.
func short(commit string) string {
	if len(commit) > 7 {
		return commit[:7]
	}
	return commit
}
