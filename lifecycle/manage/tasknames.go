package manage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// TaskName is a task for shell completion. Both fields come from the sandbox and
// are untrusted; Title is safe for a terminal.
type TaskName struct{ ID, Title string }

// TaskQuery selects tasks.
type TaskQuery struct {
	// Worktree is whose tasks are listed; nil for the current one.
	Worktree *host.Worktree
	// Driver restricts the sandboxes that are asked; empty or "auto" for any.
	Driver string
	// Statuses are the statuses of the tasks; without them, all but deleted ones.
	Statuses []string
}

// TaskNames returns tasks of the current scope from a running sandbox. It creates
// and starts none, so without one there are no tasks.
func TaskNames(ctx context.Context, h host.Host, q TaskQuery) ([]TaskName, error) {
	h, found, err := inExisting(ctx, h, q.Worktree)
	if err != nil || !found {
		return nil, err
	}
	at, err := h.Here(ctx)
	if err != nil {
		return nil, err
	}
	boxes, err := h.Select(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range boxes {
		if l.Sandbox.State != lifecycle.Running || !slices.Contains([]string{"", config.DriverAuto, l.Backend.Kind}, q.Driver) {
			continue
		}
		tasks, err := askTasks(ctx, l, q.Statuses)
		if err == nil {
			return tasks, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// inExisting returns the host with its current directory in an existing worktree.
func inExisting(ctx context.Context, h host.Host, w *host.Worktree) (in host.Host, found bool, err error) {
	if w == nil {
		return h, true, nil
	}
	repo, err := host.OpenRepository(ctx, h.Dir)
	if err != nil {
		return h, false, err
	}
	t, found, err := host.FindWorktree(ctx, repo, *w)
	h.Dir = t.Path
	return h, found, err
}

// taskListMax limits the list that is read from a sandbox, in bytes.
const taskListMax = 4 << 20

func askTasks(ctx context.Context, l host.Located, statuses []string) ([]TaskName, error) {
	args := []string{wire.Program, host.TaskCommand, "list", "--markdown"}
	if len(statuses) > 0 {
		args = append(args, "--status", strings.Join(statuses, ","))
	}
	var list bytes.Buffer
	if err := lifecycle.RunService(ctx, l.Backend.Driver, l.Sandbox, nil, &lifecycle.Limited{To: &list, Left: taskListMax}, args...); err != nil {
		return nil, fmt.Errorf("listing the tasks of the sandbox %s: %w", l.Sandbox.Name, err)
	}
	return parseTasks(list.String()), nil
}

// parseTasks parses the output of "ralph task list --markdown": a heading with the
// ID, then a line per field.
func parseTasks(list string) []TaskName {
	var found []TaskName
	heading, fields := "", false
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if id, ok := strings.CutPrefix(line, "## Task "); ok {
			heading, fields = id, false
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case key == "id" && !fields && heading != "" && value == heading:
			found, fields = append(found, TaskName{ID: value}), true
		case key == "title" && fields && found[len(found)-1].Title == "":
			found[len(found)-1].Title = termsafe.Line(value)
		}
	}
	known := map[string]bool{}
	return slices.DeleteFunc(found, func(t TaskName) bool {
		again := known[t.ID]
		known[t.ID] = true
		return again
	})
}
