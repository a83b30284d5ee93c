package loop

import (
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// planned returns what a run of plan has changed in the backlog, or nil for other runs and
// if it is unknown. Tasks that other loops work on are not the plan's.
func (l *loop) planned(it *iteration) *runlog.Planned {
	if l.Session.Mode != agent.Plan || it.before.tasks == nil || it.after.tasks == nil {
		return nil
	}
	var p runlog.Planned
	closed := func(status string) bool { return status == statusDone || status == statusDeleted }
	for slug, after := range it.after.tasks {
		switch before, existed := it.before.tasks[slug]; {
		case after.Foreign:
		case !existed && after.Status == statusDeleted: // added and deleted again
		case !existed:
			p.Added++
		case closed(after.Status) && !closed(before.Status):
			p.Closed++
		case closed(before.Status) && !closed(after.Status):
			p.Reopened++
		case before.Content != after.Content:
			p.Changed++
		}
	}
	return &p
}

// describePlan returns what plans have changed, e.g. "9 tasks added, 1 changed".
func describePlan(p runlog.Planned) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Added, "added"}, {p.Changed, "changed"}, {p.Closed, "closed"}, {p.Reopened, "reopened"}} {
		switch {
		case part.n <= 0:
		case len(parts) == 0:
			parts = append(parts, count(part.n, "task")+" "+part.what)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "no tasks changed"
	}
	return strings.Join(parts, ", ")
}
