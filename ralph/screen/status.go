package screen

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// silence is the time without output from which on the status line shows it.
const silence = time.Minute

const separator = " · "

// minActivity is the width below which the activity is not truncated in favor of other
// parts, in columns.
const minActivity = 24

// part is a part of the status line. Those with the highest rank are omitted first.
type part struct {
	text string
	rank int
}

// status returns the status line for a width.
func (s *Screen) status(width int, at time.Time) string {
	now := s.now
	parts := []part{
		{s.mode, 5},
		{s.position(), 1},
		{taskOf(now), 2},
		{elapsed(now, at), 1},
		{tokensOf(now), 4},
		{costOf(now), 3},
	}
	activity := s.activity(at)
	for rank := 5; ; rank-- {
		var texts []string
		for _, p := range parts {
			if p.text != "" && p.rank <= rank {
				texts = append(texts, p.text)
			}
		}
		texts = append(texts, "")
		rest := strings.Join(texts, separator)
		left := width - ansi.StringWidth(rest)
		if rank == 0 || left >= min(minActivity, ansi.StringWidth(activity)) {
			return s.paint().dim(ansi.Truncate(rest+ansi.Truncate(activity, max(left, 1), "…"), width, "…"))
		}
	}
}

// position is the task's number, or else the run's.
func (s *Screen) position() string {
	switch now := s.now; {
	case now.N == 0:
		return ""
	case s.mode == "build" && now.Counts.Done+now.Counts.Left() > 0:
		total := now.Counts.Done + now.Counts.Left()
		return fmt.Sprintf("task %d of %d", min(now.Counts.Done+1, total), total)
	case now.Limits.MaxIterations > 0:
		return fmt.Sprintf("run %d of %d", now.N, now.Limits.MaxIterations)
	default:
		return fmt.Sprintf("run %d", now.N)
	}
}

func taskOf(now runlog.Now) string {
	if len(now.Tasks) == 0 {
		return ""
	}
	return termsafe.Line(strings.TrimSpace(now.Tasks[0] + " " + now.Title))
}

func elapsed(now runlog.Now, at time.Time) string {
	if now.Started.IsZero() {
		return ""
	}
	return at.Sub(now.Started).Round(time.Second).String()
}

func tokensOf(now runlog.Now) string {
	if now.Loop.Tokens == nil {
		return ""
	}
	return stream.Grouped(now.Loop.Tokens.Total()) + " tokens"
}

func costOf(now runlog.Now) string {
	if now.Loop.CostUSD == nil {
		return ""
	}
	cost := fmt.Sprintf("$%.2f", *now.Loop.CostUSD)
	if limit := now.Limits.MaxCostUSD; limit > 0 {
		cost += fmt.Sprintf(" of $%.2f", limit)
	}
	return cost
}

// activity is what the loop does or waits for.
func (s *Screen) activity(at time.Time) string {
	now, text := s.now, termsafe.Line(s.now.Text)
	left := ""
	if d := now.Until.Sub(at).Round(time.Second); d > 0 {
		left = ", " + d.String() + " left"
	}
	switch now.State {
	case runlog.StateChecking:
		return "check: " + text
	case runlog.StateRateLimited:
		return "rate limit" + left
	case runlog.StateRetrying:
		return text + left
	case runlog.StateWaiting:
		return cmp.Or(text, "waiting for other loops") + left
	}
	s.state.Lock()
	running := s.state.tools.running()
	s.state.Unlock()
	if quiet := at.Sub(now.LastOutput).Round(time.Second); quiet >= silence && now.LastOutput.After(now.Started) {
		return strings.TrimSpace(running + " (silent for " + quiet.String() + ")")
	}
	if running == "" {
		running = "working"
	}
	return running
}
