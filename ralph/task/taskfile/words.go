package taskfile

import (
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// priorityWords are the names of priorities.
func priorityWords() map[string]int {
	return map[string]int{
		"critical": 0, "urgent": 0, "highest": 0, "blocker": 0,
		"high": 1, "major": 1,
		"medium": 2, "normal": 2, "moderate": 2,
		"low": 3, "minor": 3,
		"lowest": 4, "trivial": 4, "backlog": 4,
	}
}

// maxPriority bounds priorities that are numbers: a file can number its tasks.
const maxPriority = 1_000_000

// parsePriority parses a number, a word, or P0 to P4.
func parsePriority(text string) (priority int, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if n, ok := priorityWords()[text]; ok {
		return n, true
	}
	digits := text
	if rest, ok := strings.CutPrefix(text, "p"); ok && len(rest) == 1 {
		digits = rest
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || f < 0 || f > maxPriority || f != float64(int(f)) {
		return 0, false
	}
	return int(f), true
}

// priority returns the priority of a task, or other without one.
func (r *reader) priority(id, text string, other int) int {
	if text == "" {
		return other
	}
	n, ok := parsePriority(text)
	if !ok {
		r.drop("task %s: unknown priority \"%s\", set to %d", named(id), oneLine(text), other)
		return other
	}
	return n
}

// A state is what a status means for the backlog.
type state int

const (
	stateOpen state = iota
	stateDone
	stateDropped // the task is not to be done
)

// states are the statuses of all formats.
func states() map[string]state {
	return map[string]state{
		"": stateOpen, "open": stateOpen, "todo": stateOpen, "to-do": stateOpen, "pending": stateOpen, "ready": stateOpen, "new": stateOpen,
		"backlog": stateOpen, "not-started": stateOpen, "planned": stateOpen, "in-progress": stateOpen, "doing": stateOpen, "active": stateOpen,
		"started": stateOpen, "partial": stateOpen, "blocked": stateOpen, "review": stateOpen, "in-review": stateOpen, "failed": stateOpen,
		"hooked": stateOpen, "reopened": stateOpen,
		"done": stateDone, "closed": stateDone, "complete": stateDone, "completed": stateDone, "finished": stateDone, "resolved": stateDone,
		"passed": stateDone, "merged": stateDone,
		"cancelled": stateDropped, "canceled": stateDropped, "deferred": stateDropped, "wontfix": stateDropped, "wont-do": stateDropped,
		"duplicate": stateDropped, "tombstone": stateDropped, "deleted": stateDropped, "archived": stateDropped, "pinned": stateDropped,
		"not-planned": stateDropped,
	}
}

// status returns the state of a task, and reports a status that is unknown, and a task that is not to be done.
func (r *reader) status(id, text string) state {
	word := strings.NewReplacer("_", "-", " ", "-", "'", "").Replace(strings.ToLower(strings.TrimSpace(text)))
	s, known := states()[word]
	switch {
	case !known:
		r.drop("task %s: unknown status \"%s\", set to %s", named(id), oneLine(text), backlog.StatusOpen)
	case s == stateDropped:
		r.drop("task %s is %s", named(id), oneLine(text))
	}
	return s
}
