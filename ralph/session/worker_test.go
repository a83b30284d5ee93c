package session

import (
	"context"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/shell"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

var _ shell.Backlog = (*Worker)(nil)

func newWorker(t *testing.T, s *backlog.Store, command string) *Worker {
	t.Helper()
	c := connect(t, DoorOptions{Store: s, Command: command}, false)
	return NewWorker(func(ctx context.Context, args []string, stdin []byte) (TaskResponse, error) {
		return c.Task(ctx, TaskRequest{Args: args, Agent: "me", Stdin: stdin, Specs: []string{"a.md"}})
	})
}

func TestWorkerWorks(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "theirs", "expired", "waits")
	assert.NilError(t, s.Create(ctx, backlog.NewTask{Slug: "a", Title: "A", Priority: 2, Steps: []string{"make", "make test"}}))
	claim(t, s, "theirs", "you")
	claimBefore(t, s, "expired", "you")
	assert.NilError(t, s.Block(ctx, "waits", "a"))
	w := newWorker(t, s, "build")

	claimable, held, err := w.Peek(ctx, -1)
	assert.NilError(t, err)
	var slugs []string
	for _, task := range append(claimable, held...) {
		slugs = append(slugs, task.Slug)
	}
	assert.DeepEqual(t, slugs, []string{"expired", "a", "theirs"})
	claimable, _, err = w.Peek(ctx, 1)
	assert.NilError(t, err)
	assert.Equal(t, len(claimable), 1)

	_, err = w.Claim(ctx, backlog.ClaimOptions{Slug: "theirs", Agent: "me", Lease: time.Hour})
	assert.ErrorIs(t, err, backlog.ErrNotEligible)
	task, err := w.Claim(ctx, backlog.ClaimOptions{Slug: "a", Agent: "me", Lease: time.Hour})
	assert.NilError(t, err)
	assert.Equal(t, task.Title, "A")
	assert.DeepEqual(t, task.Steps, []string{"make", "make test"})
	assert.NilError(t, w.Renew(ctx, "a", "me", time.Hour))
	assert.NilError(t, w.Fail(ctx, "a", "no"))
	task, err = w.Show(ctx, "a")
	assert.NilError(t, err)
	assert.Equal(t, task.Status, backlog.StatusOpen)
	assert.Equal(t, task.RetryCount, 1)
	_, err = w.Claim(ctx, backlog.ClaimOptions{Slug: "a", Lease: time.Hour})
	assert.NilError(t, err)
	assert.NilError(t, w.Done(ctx, "a", `{"commit":"1"}`))
	assert.Error(t, w.Done(ctx, "a", ""), "task 'a' is not active (status: done)")
	_, err = w.Sync(ctx, strings.NewReader(`{"id":"x","t":"X"}`))
	assert.Error(t, err, `only a user may run "task plan-sync"`)
	assert.DeepEqual(t, hint.Of(err), []string{`run "docker ralph task plan-sync" outside of the sandbox`})
}

func TestWorkerPlans(t *testing.T) {
	s := newStore(t)
	w := newWorker(t, s, "plan")
	plan := `{"id":"a","t":"A","spec":"specs/a.md"}` + "\n" + `{"id":"b","t":"B","deps":["a","none"]}`
	sum, err := w.Sync(t.Context(), strings.NewReader(plan), "a.md")
	assert.NilError(t, err)
	assert.DeepEqual(t, sum, backlog.SyncSummary{Inserted: 2, Unknown: []backlog.UnknownDep{{Task: "b", Dep: "none"}}})
	task, err := s.Show(t.Context(), "a")
	assert.NilError(t, err)
	assert.Equal(t, task.SpecRef, "a.md")
	_, err = w.Sync(t.Context(), strings.NewReader("\n{"))
	assert.Error(t, err, "line 1: invalid JSON: {")
}
