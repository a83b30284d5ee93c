package manage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
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

// EditTask lets the user edit a task, and writes it back unless it has changed meanwhile.
func (b *Backlog) EditTask(ctx context.Context, id string) error {
	t, err := b.store.Show(ctx, id)
	if err != nil {
		return err
	}
	before := fieldsOf(t)
	text, err := encodeTask(before)
	if err != nil {
		return err
	}
	edited, err := b.host.Edit(ctx, "task.toml", text)
	if err != nil {
		return err
	}
	if edited.Text == text {
		b.host.Report("Edit cancelled, no changes made")
		return edited.Discard()
	}
	after, err := decodeTask(before, edited.Text)
	if err == nil {
		err = b.store.Rewrite(ctx, before, after)
	}
	if err != nil {
		return edited.Keep(err)
	}
	if _, err := fmt.Fprintf(termsafe.NewWriter(b.host.Stdout), "updated %s\n", id); err != nil {
		return err
	}
	return edited.Discard()
}

func fieldsOf(t backlog.Task) backlog.NewTask {
	return backlog.NewTask{
		Slug: t.Slug, Title: t.Title, Description: t.Description, Category: t.Category, Priority: t.Priority,
		SpecRef: t.SpecRef, Ref: t.Ref, Steps: t.Steps, Deps: t.Deps,
	}
}

func encodeTask(t backlog.NewTask) (string, error) {
	content, err := toml.Marshal(taskText{
		Title: t.Title, Priority: t.Priority, Category: t.Category, Spec: t.SpecRef, Ref: t.Ref,
		Deps: append([]string{}, t.Deps...), Steps: append([]string{}, t.Steps...), Description: t.Description,
	})
	if err != nil {
		return "", fmt.Errorf("encoding task %s: %w", t.Slug, err)
	}
	return "# Task " + termsafe.Line(t.Slug) + "\n" + string(content), nil
}

// decodeTask returns the task with its edited fields.
func decodeTask(t backlog.NewTask, text string) (backlog.NewTask, error) {
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
	t.Title, t.Priority, t.Category, t.SpecRef, t.Ref = edited.Title, edited.Priority, edited.Category, edited.Spec, edited.Ref
	t.Steps, t.Description, t.Deps = edited.Steps, edited.Description, edited.Deps
	return t, nil
}
