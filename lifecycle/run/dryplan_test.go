package run

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	door "github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire"
)

func TestIsDryPlan(t *testing.T) {
	for line, want := range map[string]bool{
		"ralph plan --dry-run": true, "ralph plan -n 3 --dry-run -m x": true,
		"ralph plan": false, "ralph": false, "ralph plan -m --dry-run": false, "ralph plan -n": false, "ralph build --dry-run": false, "ralph shell -- --dry-run": false,
	} {
		assert.Check(t, is.Equal(isDryPlan(strings.Fields(line)), want), line)
	}
}

// What the agent of a dry run changes, its loop sees, and so does the loop when another process takes the session over. The
// backlog does not have it.
func TestDryPlanChangesACopy(t *testing.T) {
	s, d, sb := dialing(t)
	assert.NilError(t, s.store.Create(t.Context(), backlog.NewTask{Slug: "old", Title: "Old", SpecRef: "a.md"}))
	n := host.Record{ID: "x", PID: 7, Token: "secret", Command: []string{"ralph", "plan", "--dry-run"}}
	loop := &host.HeldRecord{Record: n}
	task := func(args ...string) {
		r := door.TaskRequest{Args: args, Stdin: []byte(`{"id":"new","t":"New","spec":"a.md"}`), Specs: []string{"a.md"}}
		answer, err := d.client("x", wire.Peer{Command: 7}, "").Task(t.Context(), r)
		assert.NilError(t, err)
		assert.Equal(t, answer.Code, 0, "%s", answer.Stderr)
	}
	planned := func() map[string]string {
		all, err := d.client("x", wire.Peer{Outside: true, Command: 7}, "secret").Tasks(t.Context())
		assert.NilError(t, err)
		statuses := map[string]string{}
		for slug, task := range all {
			statuses[slug] = task.Status
		}
		return statuses
	}

	stop, err := s.serve(t.Context(), sb, n, nil, nil, nil)
	assert.NilError(t, err)
	task("plan-sync")
	task("create", "direct", "Direct")
	want := map[string]string{"old": "deleted", "new": "open", "direct": "open"}
	assert.DeepEqual(t, planned(), want)
	stop()

	s.release(t.Context(), session{id: "x", record: loop}, Result{lost: lifecycle.ErrDetached})
	stop, err = s.serve(t.Context(), sb, n, nil, nil, nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, planned(), want)
	stop()
	s.release(t.Context(), session{id: "x", record: loop}, Result{})
	stop, err = s.serve(t.Context(), sb, n, nil, nil, nil)
	assert.NilError(t, err)
	assert.DeepEqual(t, planned(), map[string]string{"old": "open"})
	stop()

	lines, err := s.store.Lines(t.Context(), backlog.Filter{All: true})
	assert.NilError(t, err)
	assert.Equal(t, len(lines), 1)
	assert.Equal(t, lines[0].Status, backlog.StatusOpen)
}
