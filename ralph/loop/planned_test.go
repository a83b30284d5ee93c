package loop

import (
	"context"
	"os"
	"path/filepath"
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
