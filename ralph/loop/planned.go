package loop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Changes of a plan.
const (
	planAdds    = "add"
	planChanges = "change"
	planCloses  = "close"
	planReopens = "reopen"
)

// planned returns what a run of plan has changed in the backlog, or nil for other runs and
// if it is unknown.
func (l *loop) planned(it *iteration) *runlog.Planned {
	if l.Session.Mode != agent.Plan {
		return nil
	}
	p := comparePlans(it.before.tasks, it.after.tasks)
	if p != nil {
		p.DryRun, p.Tasks = l.DryRun, nil
	}
	return p
}

// sumPlan replaces the total of a dry run by what all of its runs would change: a later one can change again what an
// earlier one has added.
func (l *loop) sumPlan() {
	if !l.DryRun {
		return
	}
	if p := comparePlans(l.initial, l.last.tasks); p != nil {
		p.DryRun = true
		l.totals.Planned = p
	}
}

// comparePlans returns how the tasks of a backlog differ, or nil if they are unknown. Tasks that other loops work on are
// not the plan's.
func comparePlans(before, after map[string]session.Task) *runlog.Planned {
	if before == nil || after == nil {
		return nil
	}
	var p runlog.Planned
	for slug, task := range after {
		earlier, existed := before[slug]
		change := changeOf(earlier, existed, task)
		switch change {
		case planAdds:
			p.Added++
		case planChanges:
			p.Changed++
		case planCloses:
			p.Closed++
		case planReopens:
			p.Reopened++
		default:
			continue
		}
		p.Tasks = append(p.Tasks, runlog.PlannedTask{Change: change, ID: slug, Title: task.Title})
	}
	slices.SortFunc(p.Tasks, func(a, b runlog.PlannedTask) int { return cmp.Compare(a.ID, b.ID) })
	return &p
}

// changeOf returns how a plan has changed a task; empty if it has not.
func changeOf(before session.Task, existed bool, after session.Task) string {
	closed := func(status string) bool { return status == statusDone || status == statusDeleted }
	switch {
	case after.Foreign:
	case !existed && after.Status == statusDeleted: // added and deleted again
	case !existed:
		return planAdds
	case closed(before.Status) && closed(after.Status):
	case closed(after.Status):
		return planCloses
	case closed(before.Status):
		return planReopens
	case before.Content != after.Content:
		return planChanges
	}
	return ""
}

// describePlan returns what plans have changed, e.g. "9 tasks added, 1 changed", or would change, e.g. "9 tasks to add,
// 1 to change".
func describePlan(p runlog.Planned) string {
	added, changed, closed, reopened, none := "added", "changed", "closed", "reopened", "no tasks changed"
	if p.DryRun {
		added, changed, closed, reopened, none = "to add", "to change", "to close", "to reopen", "no tasks to change"
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{p.Added, added}, {p.Changed, changed}, {p.Closed, closed}, {p.Reopened, reopened}} {
		switch {
		case part.n <= 0:
		case len(parts) == 0:
			parts = append(parts, count(part.n, "task")+" "+part.what)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ")
}

// listPlan returns the tasks that a plan would change as a table; empty without any.
func listPlan(p *runlog.Planned) string {
	if p == nil || len(p.Tasks) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CHANGE\tTASK\tTITLE")
	for _, task := range p.Tasks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", task.Change, termsafe.Line(task.ID), termsafe.Line(task.Title))
	}
	_ = t.Flush() // into memory
	return b.String()
}
