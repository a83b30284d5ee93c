package backlog

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// finish has an agent finish tasks.
func finish(t *testing.T, s *Store, agent string, slugs ...string) {
	t.Helper()
	for _, slug := range slugs {
		claim(t, s, slug, agent)
		assert.NilError(t, s.As(agent).Finish(t.Context(), slug, `{"commit":"1"}`))
		assert.Equal(t, get(t, s, slug).Status, StatusFinished)
	}
}

func TestAcceptMakesFinishedTasksDone(t *testing.T) {
	ctx := t.Context()
	path := dbPath(t)
	s := openStore(t, path, testScope())
	add(t, s, "a", "b", "active", "reopened", "others", "left")
	finish(t, s, "3c9e", "a", "b", "reopened", "left")
	finish(t, s, "beef", "others")
	claim(t, s, "active", "3c9e")
	assert.NilError(t, s.MakeOpen(ctx, "reopened", "not like this"))

	receipts := map[string]Receipt{"none": {}}
	for _, slug := range []string{"a", "b", "active", "reopened", "others"} {
		receipts[slug] = Receipt{Commit: "c0ffee", Checks: []runlog.Check{{Command: "make test", Seconds: 2}}}
	}
	accepted, err := s.Accept(ctx, "3c9e", receipts)
	assert.NilError(t, err)
	assert.Equal(t, len(accepted), 2)
	for i, slug := range []string{"a", "b"} {
		task := get(t, s, slug)
		assert.Equal(t, task.Status, StatusDone)
		assert.Equal(t, task.Result, `{"commit":"1"}`)
		assert.Equal(t, task.Assignee, "3c9e")
		assert.Assert(t, time.Since(accepted[i].Time) < time.Hour)
		want := Receipt{Task: slug, Attempt: 1, Time: accepted[i].Time, Commit: "c0ffee", Checks: receipts[slug].Checks}
		assert.DeepEqual(t, accepted[i], want)
		assert.DeepEqual(t, task.Receipt, &want)
	}
	for slug, status := range map[string]string{
		"active": StatusActive, "reopened": StatusOpen, "others": StatusFinished, "left": StatusFinished,
	} {
		task := get(t, s, slug)
		assert.Equal(t, task.Status, status, slug)
		assert.Assert(t, task.Receipt == nil, slug)
	}
	accepted, err = s.Accept(ctx, "3c9e", receipts)
	assert.NilError(t, err)
	assert.Equal(t, len(accepted), 0)
}
