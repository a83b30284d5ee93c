package task

import (
	"context"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

const (
	createUsage = "create <id> <title> [-p PRIORITY] [-c CATEGORY] [-d DESCRIPTION] [-s STEPS_JSON] [-r SPEC_REF] [--ref REF] [--deps DEP_IDS]"
	updateUsage = "update <id> [--title T] [--priority N] [--description D] [--steps S] [--status S]"
)

func create(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, createUsage)
	if err != nil {
		return err
	}
	if len(rest) == 0 || rest[0] == "" {
		return missing("task title", createUsage)
	}
	title, rest := rest[0], rest[1:]
	var prio, category, description, stepsJSON, spec, ref, depIDs option
	err = flags{options: map[string]*option{
		"-p": &prio, "-c": &category, "-d": &description, "-s": &stepsJSON, "-r": &spec, "--ref": &ref, "--deps": &depIDs,
	}}.parse(rest)
	if err != nil {
		return err
	}
	t := backlog.NewTask{
		Slug: id, Title: title, Priority: backlog.DefaultPriority,
		Description: description.value, Category: category.value, SpecRef: spec.value, Ref: ref.value,
		Deps: csv(depIDs.value),
	}
	if prio.given {
		if t.Priority, err = priority(prio); err != nil {
			return err
		}
	}
	if t.Steps, err = steps("-s (steps)", stepsJSON.value); err != nil {
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
	if err := s.store.Update(ctx, id, changes); err != nil {
		return err
	}
	s.printf("updated %s\n", id)
	return nil
}

func parseChanges(args []string) (backlog.Changes, error) {
	var c backlog.Changes
	var title, prio, description, stepsJSON, status option
	err := flags{options: map[string]*option{
		"--title": &title, "--priority": &prio, "--description": &description, "--steps": &stepsJSON, "--status": &status,
	}}.parse(args)
	if err != nil {
		return c, err
	}
	if title.value == "" {
		title.given = false // a title is required
	}
	c.Title, c.Description, c.Status = title.pointer(), description.pointer(), status.pointer()
	if prio.given {
		n, err := priority(prio)
		if err != nil {
			return c, err
		}
		c.Priority = &n
	}
	if stepsJSON.given {
		list, err := steps("--steps", stepsJSON.value)
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
