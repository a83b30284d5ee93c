package manage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// taskText is a task as the user edits it.
type taskText struct {
	Title       string   `toml:"title"`
	Priority    int      `toml:"priority" comment:"0 is the most urgent"`
	Category    string   `toml:"category"`
	Spec        string   `toml:"spec" comment:"file name of its spec"`
	Ref         string   `toml:"ref"`
	Deps        []string `toml:"deps" comment:"tasks to finish first"`
	Steps       []string `toml:"steps,multiline"`
	Description string   `toml:"description,multiline"`
}

// EditTask lets the user edit a task of the current scope, and writes it back unless it has
// changed meanwhile.
func EditTask(ctx context.Context, h host.Host, opts run.Options, id string) (code int, err error) {
	out, code, err := run.TaskOutput(ctx, h, opts, nil, "show", id, "--format", "json")
	if err != nil || code != 0 {
		return code, err
	}
	var before taskjson.Task
	if err := json.Unmarshal(out, &before); err != nil {
		return 0, fmt.Errorf("reading task %s: %w", id, err)
	}
	text, err := encodeTask(before)
	if err != nil {
		return 0, err
	}
	edited, err := h.Edit(ctx, "task.toml", text)
	if err != nil {
		return 0, err
	}
	if edited.Text == text {
		h.Report("Edit cancelled, no changes made")
		return 0, edited.Discard()
	}
	code, err = writeTask(ctx, h, opts, before, edited.Text)
	switch {
	case err != nil:
		return code, edited.Keep(err)
	case code != 0:
		return code, edited.Keep(fmt.Errorf("task %s is unchanged", id))
	}
	return 0, edited.Discard()
}

func writeTask(ctx context.Context, h host.Host, opts run.Options, before taskjson.Task, text string) (int, error) {
	after, err := decodeTask(before, text)
	if err != nil {
		return 0, err
	}
	edit, err := json.Marshal(taskjson.Edit{Before: before, After: after})
	if err != nil {
		return 0, fmt.Errorf("encoding task %s: %w", before.ID, err)
	}
	out, code, err := run.TaskOutput(ctx, h, opts, bytes.NewReader(edit), "_rewrite")
	if err == nil {
		_, err = h.Stdout.Write(out)
	}
	return code, err
}

func encodeTask(t taskjson.Task) (string, error) {
	text := taskText{
		Title: t.Title, Priority: t.Priority, Category: t.Category, Spec: t.Spec, Ref: t.Ref,
		Deps: []string{}, Steps: append([]string{}, t.Steps...), Description: t.Description,
	}
	for _, d := range t.Deps {
		text.Deps = append(text.Deps, d.ID)
	}
	content, err := toml.Marshal(text)
	if err != nil {
		return "", fmt.Errorf("encoding task %s: %w", t.ID, err)
	}
	return "# Task " + termsafe.Line(t.ID) + "\n" + string(content), nil
}

// decodeTask returns the task with its edited fields.
func decodeTask(t taskjson.Task, text string) (taskjson.Task, error) {
	var edited taskText
	d := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&edited); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := at.Position()
			return t, fmt.Errorf("reading the edited task: line %d: %w", line, err)
		}
		return t, fmt.Errorf("reading the edited task: %w", err)
	}
	switch {
	case strings.TrimSpace(edited.Title) == "":
		return t, errors.New("the edited task has no title")
	case edited.Priority < 0:
		return t, errors.New("the priority of the edited task is negative")
	}
	t.Title, t.Priority, t.Category, t.Spec, t.Ref = edited.Title, edited.Priority, edited.Category, edited.Spec, edited.Ref
	t.Steps, t.Description, t.Deps = edited.Steps, edited.Description, nil
	for _, id := range edited.Deps {
		t.Deps = append(t.Deps, taskjson.Dep{ID: id})
	}
	return t, nil
}
