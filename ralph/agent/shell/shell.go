// Package shell implements the built-in agent, which needs no model: it runs the steps of
// a task as shell commands, commits the changes, and marks the task done or failed.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Backlog is the agent's access to the backlog.
type Backlog interface {
	Peek(ctx context.Context, n int) (claimable, held []backlog.Task, err error)
	Claim(ctx context.Context, o backlog.ClaimOptions) (backlog.Task, error)
	Renew(ctx context.Context, slug, agent string, lease time.Duration) error
	Done(ctx context.Context, slug, resultJSON string) error
	Fail(ctx context.Context, slug, reason string) error
	Show(ctx context.Context, slug string) (backlog.Task, error)
	Sync(ctx context.Context, r io.Reader, specs ...string) (backlog.SyncSummary, error)
}

// Agent works in the current directory.
type Agent struct {
	Backlog Backlog
	ID      string        // in the backlog; may be empty
	Lease   time.Duration // renewed after a third of it
	out     *stream.Writer
}

// New returns an agent that reports to out.
func New(b Backlog, id string, out io.Writer) *Agent {
	return &Agent{Backlog: b, ID: id, Lease: backlog.DefaultLease, out: stream.NewWriter(out)}
}

// failure is the reason of a failed task, for the backlog.
type failure struct{ reason string }

func (f *failure) Error() string { return f.reason }

// Build runs one task, if there is one. It returns an error if the task failed. When ctx
// is done, the task fails after the current step.
func (a *Agent) Build(ctx context.Context) error {
	task, err := a.claim(ctx)
	if errors.Is(err, backlog.ErrNoneEligible) {
		return a.finish(nil, 1, "No task can be claimed.")
	}
	if err != nil {
		return a.finish(err, 1, "")
	}
	turns := max(1, len(task.Steps))
	if err := a.out.Text(fmt.Sprintf("Task %s: %s\n", task.Slug, task.Title)); err != nil {
		return err
	}
	commit, err := a.work(ctx, task)
	// Release the task even if ctx is done.
	ctx = context.WithoutCancel(ctx)
	if now, err := a.Backlog.Show(ctx, task.Slug); err == nil && now.Status == backlog.StatusQuestion {
		return a.finish(nil, turns, fmt.Sprintf("Task %s waits for an answer.", task.Slug))
	}
	var failed *failure
	switch {
	case errors.As(err, &failed):
		return a.finish(errors.Join(err, a.Backlog.Fail(ctx, task.Slug, failed.reason)), turns, "")
	case err != nil:
		return a.finish(errors.Join(err, a.Backlog.Fail(ctx, task.Slug, err.Error())), turns, "")
	case commit == "":
		err = a.Backlog.Done(ctx, task.Slug, "")
		return a.finish(err, turns, fmt.Sprintf("Task %s is done. Its steps changed nothing.", task.Slug))
	default:
		err = a.Backlog.Done(ctx, task.Slug, `{"commit":"`+commit+`"}`)
		return a.finish(err, turns, fmt.Sprintf("Task %s is done: commit %s.", task.Slug, commit))
	}
}

// claim claims the most urgent task, previously failed ones last: they must not block the
// others.
func (a *Agent) claim(ctx context.Context) (backlog.Task, error) {
	claimable, _, err := a.Backlog.Peek(ctx, -1)
	if err != nil {
		return backlog.Task{}, err
	}
	for _, t := range byRetries(claimable) {
		task, err := a.Backlog.Claim(ctx, backlog.ClaimOptions{Slug: t.Slug, Agent: a.ID, Lease: a.Lease})
		if !errors.Is(err, backlog.ErrNotEligible) {
			return task, err
		}
	}
	return backlog.Task{}, backlog.ErrNoneEligible
}

// work runs the steps and returns the commit, or "" if nothing changed.
func (a *Agent) work(ctx context.Context, task backlog.Task) (commit string, err error) {
	if len(task.Steps) == 0 {
		return "", &failure{"the task has no steps, and the shell agent does nothing but run steps. " +
			"Add some: docker ralph task update " + agent.ShellQuote(task.Slug) + ` --steps '["command"]'`}
	}
	stop := a.keepLease(ctx, task.Slug)
	defer stop()
	before := head(ctx)
	interrupts := watchInterrupts()
	defer interrupts.stop()
	for i, step := range task.Steps {
		if err := a.out.Bash(step); err != nil {
			return "", err
		}
		if err := a.runStep(ctx, i+1, step); err != nil {
			return "", err
		}
		if ctx.Err() != nil || interrupts.received() {
			return "", &failure{fmt.Sprintf("interrupted after step %d of %d", i+1, len(task.Steps))}
		}
	}
	// Do not interrupt the commit.
	return a.commit(context.WithoutCancel(ctx), before, task.Title)
}

// keepLease renews the lease until stop is called.
func (a *Agent) keepLease(ctx context.Context, slug string) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(a.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// Done detects a task that was claimed by another agent.
				_ = a.Backlog.Renew(ctx, slug, a.ID, a.Lease)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// finish reports the end of the run.
func (a *Agent) finish(err error, turns int, text string) error {
	if err != nil {
		text = err.Error()
	}
	return errors.Join(err, a.out.Text("\n"+text+"\n"), a.out.Result(err != nil, turns, text))
}
