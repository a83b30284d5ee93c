package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// Worker is the backlog of an agent that runs task commands. The host knows the agent of its session.
type Worker struct {
	run func(ctx context.Context, args []string, stdin []byte) (TaskResponse, error)
}

// NewWorker returns the backlog of an agent whose task commands run executes.
func NewWorker(run func(ctx context.Context, args []string, stdin []byte) (TaskResponse, error)) *Worker {
	return &Worker{run}
}

// task runs a command and returns its output.
func (w *Worker) task(ctx context.Context, stdin []byte, args ...string) (TaskResponse, error) {
	r, err := w.run(ctx, args, stdin)
	if err == nil && r.Code != 0 {
		err = commandError(string(r.Stderr), r.Code)
	}
	return r, err
}

// commandError returns the error that a command has printed.
func commandError(stderr string, code int) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	switch lines[0] {
	case "":
		return fmt.Errorf("ralph task ended with exit code %d", code)
	case "No eligible tasks":
		return backlog.ErrNoneEligible
	case "Task not eligible":
		return backlog.ErrNotEligible
	}
	err := errors.New(strings.TrimPrefix(lines[0], "Error: "))
	for _, line := range lines[1:] {
		if text, found := strings.CutPrefix(line, "Hint: "); found {
			err = hint.Wrap(err, "%s", text)
		}
	}
	return err
}

// Peek returns the tasks that can be claimed, at most n unless it is negative, and those that are claimed.
func (w *Worker) Peek(ctx context.Context, n int) (claimable, held []backlog.Task, err error) {
	r, err := w.task(ctx, nil, "list", "--status", "open,active", "--format", "json")
	if err != nil {
		return nil, nil, err
	}
	var all []taskjson.Task
	if err := json.Unmarshal(r.Stdout, &all); err != nil {
		return nil, nil, fmt.Errorf("reading the tasks: %w", err)
	}
	for _, t := range all {
		leased := t.LeaseExpiresAt.IsZero() || t.LeaseExpiresAt.After(time.Now())
		switch {
		case t.Status == backlog.StatusActive && leased:
			held = append(held, taskOf(t))
		case (t.Status == backlog.StatusActive || t.Status == backlog.StatusOpen) && (n < 0 || len(claimable) < n):
			claimable = append(claimable, taskOf(t))
		}
	}
	return claimable, held, nil
}

func taskOf(t taskjson.Task) backlog.Task {
	return backlog.Task{
		Slug: t.ID, Title: t.Title, Description: t.Description, Category: t.Category, Priority: t.Priority, Status: t.Status,
		SpecRef: t.Spec, Ref: t.Ref, Result: string(t.Result), Assignee: t.Assignee, RetryCount: t.Retries, FailReason: t.FailReason,
		Steps: t.Steps, Questions: t.Questions,
	}
}

// Claim claims a task. The host decides about its agent.
func (w *Worker) Claim(ctx context.Context, o backlog.ClaimOptions) (backlog.Task, error) {
	if _, err := w.task(ctx, nil, "claim", o.Slug, "--lease", seconds(o.Lease)); err != nil {
		return backlog.Task{}, err
	}
	return w.Show(ctx, o.Slug)
}

func seconds(lease time.Duration) string { return strconv.Itoa(int(lease / time.Second)) }

// Renew renews the lease of a task.
func (w *Worker) Renew(ctx context.Context, slug, _ string, lease time.Duration) error {
	_, err := w.task(ctx, nil, "renew", slug, "--lease", seconds(lease))
	return err
}

// Done finishes a task.
func (w *Worker) Done(ctx context.Context, slug, resultJSON string) error {
	args := []string{"done", slug}
	if resultJSON != "" {
		args = append(args, "--result", resultJSON)
	}
	_, err := w.task(ctx, nil, args...)
	return err
}

// Fail releases a task.
func (w *Worker) Fail(ctx context.Context, slug, reason string) error {
	_, err := w.task(ctx, nil, "fail", slug, "--reason", reason)
	return err
}

// Show returns a task.
func (w *Worker) Show(ctx context.Context, slug string) (backlog.Task, error) {
	r, err := w.task(ctx, nil, "show", slug, "--format", "json")
	if err != nil {
		return backlog.Task{}, err
	}
	var t taskjson.Task
	if err := json.Unmarshal(r.Stdout, &t); err != nil {
		return backlog.Task{}, fmt.Errorf("reading task %s: %w", slug, err)
	}
	return taskOf(t), nil
}

var unknownDeps = lazyregexp.New(`(?m)^Warning: task '(.*)' depends on '(.*)', which does not exist; dependency ignored$`)

// Sync makes the backlog match a plan. Whoever runs the command knows the specs.
func (w *Worker) Sync(ctx context.Context, plan io.Reader, _ ...string) (sum backlog.SyncSummary, err error) {
	stdin, err := io.ReadAll(io.LimitReader(plan, MaxRequest))
	if err != nil {
		return sum, fmt.Errorf("reading the plan: %w", err)
	}
	r, err := w.task(ctx, stdin, "plan-sync")
	if err != nil {
		return sum, err
	}
	_, err = fmt.Sscanf(string(r.Stdout), "inserted: %d, updated: %d, deleted: %d, skipped (done): %d", &sum.Inserted, &sum.Updated, &sum.Deleted, &sum.Skipped)
	if err != nil {
		return sum, fmt.Errorf("reading the result of plan-sync: %w", err)
	}
	for _, found := range unknownDeps().FindAllStringSubmatch(string(r.Stderr), -1) {
		sum.Unknown = append(sum.Unknown, backlog.UnknownDep{Task: found[1], Dep: found[2]})
	}
	return sum, nil
}
