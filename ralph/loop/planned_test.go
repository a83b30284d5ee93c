package loop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// planBacklog has other tasks once the agent has run.
type planBacklog struct {
	emptyBacklog
	ran           string // file that the agent creates
	before, after map[string]session.Task
}

func (b planBacklog) Tasks(context.Context) (map[string]session.Task, error) {
	if _, err := os.Stat(b.ran); err == nil {
		return b.after, nil
	}
	return b.before, nil
}

func (b planBacklog) Status(ctx context.Context) (session.Status, error) {
	tasks, err := b.Tasks(ctx)
	return session.Status{Open: len(tasks)}, err
}

func TestPlanReportsWhatItPlanned(t *testing.T) {
	before := map[string]session.Task{
		"same": {Status: "open", Content: "1"}, "changed": {Status: "open", Content: "1"}, "dropped": {Status: "open"},
		"done": {Status: "open"}, "again": {Status: "deleted"}, "other": {Status: "active", Foreign: true},
	}
	after := map[string]session.Task{
		"same": {Status: "open", Content: "1"}, "changed": {Status: "question", Content: "2"}, "dropped": {Status: "deleted"},
		"done": {Status: "done", Content: "2"}, "again": {Status: "open"}, "other": {Status: "done", Foreign: true},
		"new": {Status: "open"}, "known": {Status: "done"}, "mistake": {Status: "deleted"},
	}
	for _, tc := range []struct {
		name  string
		mode  agent.Mode
		after map[string]session.Task
		want  string
		json  *runlog.Planned
	}{
		{"changes", agent.Plan, after, "2 tasks added, 1 changed, 2 closed, 1 reopened", &runlog.Planned{Added: 2, Changed: 1, Closed: 2, Reopened: 1}},
		{"one", agent.Plan, map[string]session.Task{"same": {Status: "done"}}, "1 task closed", &runlog.Planned{Closed: 1}},
		{"none", agent.Plan, before, "no tasks changed", &runlog.Planned{}},
		{"unreadable", agent.Plan, nil, "0 tasks done", nil},
		{"build", agent.Build, after, "0 tasks done", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTestLoop(t, tc.mode, "touch $DIR/ran", nil)
			tr.Backlog = planBacklog{ran: filepath.Join(tr.dir(), "ran"), before: before, after: tc.after}
			tr.AgentID, tr.MaxIterations = "", 1
			if tc.mode == agent.Build {
				tr.Backlog = nil
			}
			report, err := Run(t.Context(), tr.Options)
			assert.NilError(t, err)
			assert.DeepEqual(t, report.Iterations[0].Planned, tc.json)
			assert.DeepEqual(t, report.Totals.Planned, tc.json)
			assert.Assert(t, cmp.Contains(tr.out.String(), "Total: 1 run, "+tc.want+", "))
			if tc.json != nil {
				assert.Assert(t, cmp.Contains(tr.out.String(), "Iteration 1: ended | "+tc.want+" | "))
			}
		})
	}
}

// A dry run sums up what its runs would change together, lists it, and logs no change of a task.
func TestDryRunOfPlanListsTheTasks(t *testing.T) {
	before := map[string]session.Task{
		"same": {Status: "open"}, "changed": {Status: "open", Content: "1"}, "dropped": {Status: "open", Title: "D\x1b[2J"},
		"gone": {Status: "deleted", Content: "1"}, "again": {Status: "deleted"},
	}
	after := map[string]session.Task{
		"same": {Status: "open"}, "changed": {Status: "open", Content: "2", Title: "C"}, "dropped": {Status: "deleted", Title: "D\x1b[2J"},
		"gone": {Status: "deleted", Content: "2"}, "again": {Status: "open", Title: "A"}, "new": {Status: "open", Title: "N\nn"},
	}
	tr := newTestLoop(t, agent.Plan, "touch $DIR/ran", nil)
	tr.Backlog = planBacklog{ran: filepath.Join(tr.dir(), "ran"), before: before, after: after}
	tr.AgentID, tr.MaxIterations, tr.DryRun = "", 2, true
	tr.Earlier = []runlog.Iteration{{N: 1, Planned: &runlog.Planned{Added: 7, DryRun: true}}}
	events, report, last := logged(t, tr)
	assert.Equal(t, report.Stop, LimitReached)
	assert.DeepEqual(t, report.Iterations[0].Planned, &runlog.Planned{Added: 1, Changed: 1, Closed: 1, Reopened: 1, DryRun: true})
	assert.DeepEqual(t, report.Iterations[1].Planned, &runlog.Planned{DryRun: true})
	assert.DeepEqual(t, report.Totals.Planned, &runlog.Planned{Added: 1, Changed: 1, Closed: 1, Reopened: 1, DryRun: true, Tasks: []runlog.PlannedTask{
		{Change: "reopen", ID: "again", Title: "A"},
		{Change: "change", ID: "changed", Title: "C"},
		{Change: "close", ID: "dropped", Title: "D\x1b[2J"},
		{Change: "add", ID: "new", Title: "N\nn"},
	}})
	assert.Assert(t, cmp.Contains(tr.out.String(), `
CHANGE  TASK     TITLE
reopen  again    A
change  changed  C
close   dropped  D
add     new      N n

RUN `))
	assert.Assert(t, cmp.Contains(tr.out.String(), "Total: 3 runs, 1 task to add, 1 to change, 1 to close, 1 to reopen, "))
	assert.Assert(t, cmp.Contains(tr.out.String(), "\nDry run: the backlog was not changed.\n"))
	for _, e := range events {
		assert.Assert(t, !strings.HasPrefix(e, "task "), e)
	}
	assert.Equal(t, last.Now.Counts.Open, len(before), "those of the backlog")
}

// What was only shown is not counted with what has changed the backlog.
func TestTotalsLeaveOutDryRuns(t *testing.T) {
	totals := totalsOf([]runlog.Iteration{{Planned: &runlog.Planned{Added: 7, DryRun: true}}, {Planned: &runlog.Planned{Added: 2}}})
	assert.DeepEqual(t, totals.Planned, &runlog.Planned{Added: 2})
}
