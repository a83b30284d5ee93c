package manage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
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
	h, found, err := h.Existing(ctx, q.Worktree)
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
		if l.Backend.Unusable != nil || l.Sandbox.State != lifecycle.Running || !slices.Contains([]string{"", config.DriverAuto, l.Backend.Kind}, q.Driver) {
			continue
		}
		names, err := taskNames(ctx, l, q.Statuses)
		if err == nil {
			return names, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// taskNames lists the tasks of a sandbox. The end of a list that is too long is
// ignored.
func taskNames(ctx context.Context, l host.Located, statuses []string) ([]TaskName, error) {
	args := []string{"list"}
	if len(statuses) > 0 {
		args = append(args, "--status", strings.Join(statuses, ","))
	}
	tasks, err := readTasks[taskjson.Task](ctx, l, args...)
	if err != nil && len(tasks) == 0 {
		return nil, err
	}
	names := make([]TaskName, 0, len(tasks))
	for _, t := range tasks {
		names = append(names, TaskName{ID: t.ID, Title: termsafe.Line(t.Title)})
	}
	return names, nil
}

// taskListMax limits the list that is read from a sandbox, in bytes.
const taskListMax = 4 << 20

// readTasks runs a task command that prints a JSON array. With an error, the elements
// before it are returned.
func readTasks[T any](ctx context.Context, l host.Located, args ...string) (list []T, err error) {
	args = slices.Concat([]string{wire.Program, host.TaskCommand}, args, []string{"--format", "json"})
	var out bytes.Buffer
	err = lifecycle.RunService(ctx, l.Backend.Driver, l.Sandbox, nil, &lifecycle.Limited{To: &out, Left: taskListMax}, args...)
	if err == nil {
		list, err = decodeList[T](&out)
	}
	if err != nil {
		err = fmt.Errorf("listing the tasks of the sandbox %s: %w", l.Sandbox.Name, err)
	}
	return list, err
}

// decodeList decodes a JSON array, and returns the elements before an error.
func decodeList[T any](r io.Reader) (list []T, err error) {
	d := json.NewDecoder(r)
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, cmp.Or(err, errors.New("not a JSON array"))
	}
	for d.More() {
		var element T
		if err := d.Decode(&element); err != nil {
			return list, err
		}
		list = append(list, element)
	}
	_, err = d.Token()
	return list, err
}
