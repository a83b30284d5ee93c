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

// collectCheckDenied adds the connections blocked during a check, and returns them.
func (l *loop) collectCheckDenied(ctx context.Context, it *iteration) []denylog.Refusal {
	if l.Refused == nil {
		return nil
	}
	denied := l.Refused(context.WithoutCancel(ctx))
	it.refused = merged(it.refused, denied.Refused)
	l.denied = denylog.Answer{Refused: merged(l.denied.Refused, denied.Refused), More: l.denied.More + denied.More}
	return denied.Refused
}

// merged returns blocked connections with those of a second list.
func merged(targets, more []denylog.Refusal) []denylog.Refusal {
	all := slices.Clone(targets)
	for _, target := range more {
		i := slices.IndexFunc(all, func(t denylog.Refusal) bool { return t.Target() == target.Target() })
		if i < 0 {
			all = append(all, target)
		} else {
			all[i].Times += target.Times
		}
	}
	return all
}

// blockedHosts begins the reason of a failure during which connections were blocked: they
// are its likely cause, and the output rarely names them. It is empty without any.
func blockedHosts(targets []denylog.Refusal) string {
	if len(targets) == 0 {
		return ""
	}
	text := "blocked: " + deniedLine(targets)
	for _, target := range targets {
		if len(target.Host) <= deniedNameMax {
			return text + ", allow with: docker ralph network allow " + ruleFor(target) + "\n"
		}
	}
	return text + "\n"
}

// nextNote returns the note for the next run.
func (l *loop) nextNote() string {
	notes := []string{l.note, l.leftOut, l.attemptsNote(), l.answers(), ""}
	if len(l.denied.Refused) > 0 {
		notes[4] = strings.ReplaceAll(l.RefusedText, agent.RefusedMark, deniedList(l.denied))
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
