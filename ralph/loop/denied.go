package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// Limits of lists of blocked connections. The agent chooses the host names.
const (
	deniedInPrompt = 20
	deniedInLine   = 3
	deniedNameMax  = 100 // bytes
)

// collectDenied collects the connections blocked during a run. The list from before a
// rate-limited run stays.
func (l *loop) collectDenied(ctx context.Context, it *iteration) {
	if l.Refused == nil {
		return
	}
	denied := l.Refused(ctx)
	it.refused = denied.Refused
	if it.consequence().next != wait || len(denied.Refused) > 0 {
		l.denied = denied
	}
}

// maxHookErrors bounds the errors of hooks that are kept of a run.
const maxHookErrors = 100

// warnDenied warns once about settings of the agent that deny some of its tool calls, and
// about hooks that fail.
func (l *loop) warnDenied(run outcome) {
	if run.denied.Calls > 0 && !run.denied.All {
		l.warnOnce("denied", "the settings of agent %s denied %s: %s", l.Agent.Name(), plural(run.denied.Calls, "tool call", "tool calls"), cut(run.denied.Text))
	}
	if len(run.hooks) > 0 {
		l.warnOnce("hooks", "a hook of agent %s failed: %s", l.Agent.Name(), cut(run.hooks[0]))
	}
}

// nextNote returns the note for the next run.
func (l *loop) nextNote() string {
	notes := []string{l.note, l.leftovers(), l.answers(), ""}
	if len(l.denied.Refused) > 0 {
		notes[3] = strings.ReplaceAll(l.RefusedText, agent.RefusedMark, deniedList(l.denied))
	}
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "\n")
}

// deniedList formats blocked connections for the prompt.
func deniedList(r denylog.Answer) string {
	var lines []string
	more := r.More
	for _, target := range r.Refused {
		if len(lines) == deniedInPrompt || len(target.Host) > deniedNameMax {
			more += target.Times
			continue
		}
		lines = append(lines, fmt.Sprintf("- `%s`, %s", target.Target(), count(target.Times, "time")))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("- others, %s", count(more, "time")))
	}
	return strings.Join(lines, "\n")
}

// deniedLine formats blocked connections for a run's line.
func deniedLine(targets []denylog.Refusal) string {
	var items []string
	for _, target := range targets {
		if len(items) < deniedInLine && len(target.Host) <= deniedNameMax {
			items = append(items, fmt.Sprintf("%s ×%d", target.Target(), target.Times))
		}
	}
	if more := len(targets) - len(items); more > 0 {
		items = append(items, fmt.Sprintf("%d more", more))
	}
	return strings.Join(items, ", ")
}
