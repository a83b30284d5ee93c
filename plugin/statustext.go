package plugin

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	safe "github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// stateText is what a running loop does, unless an agent works.
func stateText(l *manage.LoopStatus) string {
	text := map[string]string{
		string(runlog.StateChecking):    "checking",
		string(runlog.StateRateLimited): "rate limited",
		string(runlog.StateRetrying):    "retrying",
		string(runlog.StateWaiting):     "waiting for other loops",
	}[l.State]
	if l.State == string(runlog.StateWaiting) && l.Text != "" { // which says for what
		text = "waiting"
	}
	if text != "" && l.Until != nil {
		text += " until " + l.Until.Local().Format("15:04")
	}
	return text
}

// leftText is the number of unfinished tasks.
func leftText(l *manage.LoopStatus) string {
	if l.Counts == nil {
		return ""
	}
	return fmt.Sprint(l.Counts.Left())
}

func tokensText(l *manage.LoopStatus) string {
	if l.Usage.Tokens == nil {
		return ""
	}
	text := amount(l.Usage.Tokens.Total())
	if limit := l.Limits.MaxTokens; limit > 0 {
		text += " of " + amount(limit)
	}
	return text
}

func amount(n int64) string {
	return units.CustomSize("%.3g%s", float64(n), 1000, []string{"", "k", "M", "G", "T"})
}

func costText(l *manage.LoopStatus) string {
	if l.Usage.CostUSD == nil {
		return ""
	}
	text := fmt.Sprintf("$%.2f", *l.Usage.CostUSD)
	if limit := l.Limits.MaxCostUSD; limit > 0 {
		text += fmt.Sprintf(" of $%.2f", limit)
	}
	return text
}

func blockedText(all []denylog.Refusal) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = safe.Line(r.Target())
		if r.Times > 1 {
			texts[i] += fmt.Sprintf(" ×%d", r.Times)
		}
	}
	return strings.Join(texts, ", ")
}

// statusText describes one sandbox in a few lines.
func statusText(s manage.SandboxStatus, now time.Time) string {
	r := newSandboxRow(s, now)
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(&b, "%-10s %s\n", label, text)
		}
	}
	state := r.State
	switch {
	case s.State == string(lifecycle.NotFound):
		state = "none"
	case r.Driver != "":
		state += fmt.Sprintf(" (%s, %s)", r.Driver, r.Agent)
	}
	if s.OtherClient != "" {
		state += ", " + otherClientText(s)
	}
	line("Sandbox", r.Name+": "+state)
	line("Scope", r.Scope)
	line("Worktree", r.Worktree)
	if s.Workspace == config.WorkspaceLive {
		line("Workspace", "live: the agent can write to your files and your git directory")
	}
	line("Activity", activityText(s, now))
	if s.Loop != nil {
		loopLines(line, s.Loop, now)
	} else if s.Counts != nil {
		line("Tasks", countsText(*s.Counts))
	}
	for _, q := range s.Questions {
		line("Question", safe.Line(q.ID+": "+q.Text))
	}
	line("Blocked", r.Blocked)
	if r.Unfetched != "" {
		line("Commits", r.Unfetched+" not fetched")
	}
	line("Not merged", s.Unmerged)
	return b.String()
}

// activityText is the activity in words.
func activityText(s manage.SandboxStatus, now time.Time) string {
	text := strings.ReplaceAll(string(s.Activity), "_", " ")
	l := s.Loop
	if l == nil {
		return text
	}
	if l.Running {
		if state := stateText(l); state != "" {
			text = state
		}
		if l.StateSince != nil {
			text += " for " + ago(*l.StateSince, now)
		}
		if l.Text != "" {
			text += ": " + l.Text
		}
	}
	return text
}

func ago(t, now time.Time) string { return strings.ToLower(units.HumanDuration(max(0, now.Sub(t)))) }

// timeText is the time that a running loop has taken, with that before it was resumed.
func timeText(l *manage.LoopStatus, now time.Time) string {
	limit, earlier := l.Limits.MaxDurationSecs, durationOf(l.EarlierSeconds)
	if !l.Running || l.Since == nil || limit <= 0 && earlier == 0 {
		return ""
	}
	text := ago(l.Since.Add(-earlier), now)
	if limit > 0 {
		text += " of " + units.HumanDuration(durationOf(limit))
	}
	if earlier > 0 {
		text += fmt.Sprintf(" (%s before it was resumed)", strings.ToLower(units.HumanDuration(earlier)))
	}
	return text
}

func durationOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// loopLines prints the lines about a loop.
func loopLines(line func(label, text string), l *manage.LoopStatus, now time.Time) {
	plain := *l
	plain.State = "" // it is a line by itself
	line("Loop", loopText(&plain, now))
	if l.Orphaned {
		line("Note", `its command on this machine has ended: it waits after its run until "docker ralph attach" or another command serves it`)
	}
	if l.Title != "" {
		line("Task", strings.Join(l.Tasks, ", ")+": "+l.Title)
	}
	if l.Running && l.RunStarted != nil {
		text := fmt.Sprintf("%d, for %s", l.Iteration, ago(*l.RunStarted, now))
		if l.LastOutput != nil {
			text += fmt.Sprintf(", last output %s ago", ago(*l.LastOutput, now))
		}
		line("Run", text)
	}
	if c := l.Counts; c != nil {
		line("Tasks", countsText(*c))
	}
	line("Tokens", tokensText(l))
	line("Cost", costText(l))
	line("Time", timeText(l, now))
	line("Error", l.Error)
	if !l.Running {
		line("Summary", l.Summary)
	}
}

// countsText lists the counts that are not 0.
func countsText(c runlog.Counts) string {
	text := fmt.Sprintf("%d done, %d left", c.Done, c.Left())
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{c.Active, "active"}, {c.Open, "open"}, {c.Waiting, "waiting"}, {c.Blocked, "blocked"}, {c.Question, "question"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
