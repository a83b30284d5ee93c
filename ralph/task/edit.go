package task

import (
	"context"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

const (
	createUsage = "create <id> <title> [-p PRIORITY] [-c CATEGORY] [-d DESCRIPTION] [-s STEPS_JSON] [-r SPEC_REF] [--ref REF] [--deps DEP_IDS]"
	updateUsage = "update <id> [--title T] [--priority N] [--description D] [--steps S] [--status S]"
)

// fields are the flags for the fields of a task.
type fields struct{ priority, category, description, steps, spec, ref, deps option }

func (f *fields) options() map[string]*option {
	return map[string]*option{
		"-p": &f.priority, "--priority": &f.priority, "-c": &f.category, "--category": &f.category,
		"-d": &f.description, "--description": &f.description, "-s": &f.steps, "--steps": &f.steps,
		"-r": &f.spec, "--spec": &f.spec, "--ref": &f.ref, "--deps": &f.deps,
	}
}

func create(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, createUsage)
	if err != nil {
		return err
	}
	if len(rest) == 0 || rest[0] == "" {
		return missing("task title", createUsage)
	}
	title, rest := rest[0], rest[1:]
	var f fields
	if err := (flags{options: f.options()}).parse(rest); err != nil {
		return err
	}
	t := backlog.NewTask{
		Slug: id, Title: title, Priority: backlog.DefaultPriority,
		Description: f.description.value, Category: f.category.value, SpecRef: f.spec.value, Ref: f.ref.value,
		Deps: csv(f.deps.value),
	}
	if f.priority.given {
		if t.Priority, err = priority(f.priority); err != nil {
			return err
		}
	}
	if t.Steps, err = steps("-s (steps)", f.steps.value); err != nil {
		return err
	}
	if err := s.store.Create(ctx, t); err != nil {
		return err
	}
	s.printf("%s\n", id)
	return nil
}

func update(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, updateUsage)
	if err != nil {
		return err
	}
	changes, err := parseChanges(rest)
	if err != nil {
		return err
	}
	if s.Access == AccessAgent && changes.Status != nil {
		return userOnly("update --status")
	}
	if err := s.store.Update(ctx, id, changes); err != nil {
		return err
	}
	s.printf("updated %s\n", id)
	return nil
}

func parseChanges(args []string) (backlog.Changes, error) {
	var c backlog.Changes
	var f fields
	var title, status option
	options := f.options()
	delete(options, "--deps") // block and unblock change dependencies
	options["-t"], options["--title"], options["--status"] = &title, &title, &status
	if err := (flags{options: options}).parse(args); err != nil {
		return c, err
	}
	if title.value == "" {
		title.given = false // a title is required
	}
	c.Title, c.Description, c.Status = title.pointer(), f.description.pointer(), status.pointer()
	c.Category, c.SpecRef, c.Ref = f.category.pointer(), f.spec.pointer(), f.ref.pointer()
	if f.priority.given {
		n, err := priority(f.priority)
		if err != nil {
			return c, err
		}
		c.Priority = &n
	}
	if f.steps.given {
		list, err := steps("--steps", f.steps.value)
		if err != nil {
			return c, err
		}
		c.Steps = &list
	}
	if c == (backlog.Changes{}) {
		return c, errNoFields
	}
	return c, nil
}

func reopen(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, `reopen <id> [--reason "<text>"]`)
	if err != nil {
		return err
	}
	var reason option
	if err := (flags{options: map[string]*option{"--reason": &reason}}).parse(rest); err != nil {
		return err
	}
	if err := s.store.MakeOpen(ctx, id, reason.value); err != nil {
		return err
	}
	s.printf("reopened %s\n", id)
	return nil
}
