package loop

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// Bounds of what is told of refusals. The names in them are an agent's choice.
const (
	refusedInPrompt = 20
	refusedInLine   = 3
	refusedNameMax  = 100 // bytes; what is longer is hardly a name that matters
)

// hearRefused asks what was refused during a run. One that was cut off by a rate
// limit does not make what is known unknown.
func (l *loop) hearRefused(ctx context.Context, it *iteration) {
	if l.Refused == nil {
		return
	}
	heard := l.Refused(ctx)
	it.refused = heard.Refused
	if it.limit == nil || len(heard.Refused) > 0 {
		l.refused = heard
	}
}

// noted is what the next run has to know.
func (l *loop) noted() string {
	if len(l.refused.Refused) == 0 {
		return l.note
	}
	text := strings.ReplaceAll(l.RefusedText, agent.RefusedMark, refusedList(l.refused))
	if l.note == "" {
		return text
	}
	return l.note + "\n" + text
}

// refusedList is for the prompt.
func refusedList(r denylog.Answer) string {
	var lines []string
	more := r.More
	for _, place := range r.Refused {
		if len(lines) == refusedInPrompt || len(place.Host) > refusedNameMax {
			more += place.Times
			continue
		}
		lines = append(lines, fmt.Sprintf("- `%s`, %s", place.Place(), count(place.Times, "time")))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("- others, %s", count(more, "time")))
	}
	return strings.Join(lines, "\n")
}

// refusedLine is for the line about a run.
func refusedLine(places []denylog.Refusal) string {
	var told []string
	for _, place := range places {
		if len(told) < refusedInLine && len(place.Host) <= refusedNameMax {
			told = append(told, fmt.Sprintf("%s ×%d", place.Place(), place.Times))
		}
	}
	if more := len(places) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
	}
	return strings.Join(told, ", ")
}
