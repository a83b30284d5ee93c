package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

var (
	errBothAllAndStatus = errors.New("--all and --status are mutually exclusive")
	errNoFields         = errors.New("no fields to update")
)

func list(ctx context.Context, s *session, args []string) error {
	var status, assignee, format option
	var all, markdown bool
	err := flags{
		options:  map[string]*option{"--status": &status, "--assignee": &assignee, "--format": &format},
		switches: map[string]*bool{"--all": &all, "--markdown": &markdown},
	}.parse(args)
	if err != nil {
		return err
	}
	if all && status.value != "" {
		return errBothAllAndStatus
	}
	asJSON, err := isJSON(format)
	if err != nil {
		return err
	}
	filter := backlog.Filter{All: all, Statuses: csv(status.value), Assignee: assignee.value}
	if status.value != "" && len(filter.Statuses) == 0 {
		filter.Statuses = []string{""} // a list without a status matches nothing
	}
	if asJSON {
		tasks, err := s.store.List(ctx, filter)
		if err != nil {
			return err
		}
		list := []taskjson.Task{}
		for _, t := range tasks {
			list = append(list, taskJSON(t))
		}
		return s.printJSON(list)
	}
	if markdown {
		tasks, err := s.store.List(ctx, filter)
		s.printSections(records(tasks, listedRecord))
		return err
	}
	lines, err := s.store.Lines(ctx, filter)
	s.printTable(lines)
	if err == nil && len(lines) == 0 && s.Hints {
		if text := AdoptHint(ctx, s.store, s.Former); text != "" {
			s.complain(text)
		}
	}
	return err
}

func show(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, "show <id> [--with-deps]")
	if err != nil {
		return err
	}
	var withDeps bool
	var format option
	if err := (flags{options: map[string]*option{"--format": &format}, switches: map[string]*bool{"--with-deps": &withDeps}}).parse(rest); err != nil {
		return err
	}
	asJSON, err := isJSON(format)
	if err != nil {
		return err
	}
	task, err := s.store.Show(ctx, id)
	if err != nil {
		return err
	}
	refs := s.Attempts[task.Slug]
	if s.Store == nil {
		refs = attempt.Worktree(s.store.Top()).List(ctx)[task.Slug]
	}
	if asJSON {
		shown := taskJSON(task)
		shown.Attempts = refs
		return s.printJSON(shown)
	}
	s.printDetails(task, withDeps)
	s.printBlock("Receipt:", receiptLines(task.Receipt))
	s.printBlock("Attempts:", refs)
	return nil
}

// defaultPeek is the default number of claimable tasks that peek shows.
const defaultPeek = 5

func peek(ctx context.Context, s *session, args []string) error {
	limit := option{value: strconv.Itoa(defaultPeek)}
	if err := (flags{options: map[string]*option{"-n": &limit}}).parse(args); err != nil {
		return err
	}
	n, err := strconv.Atoi(limit.value) // a negative number means no limit
	if err != nil {
		return fmt.Errorf("-n must be a non-negative integer, got: %s", limit.value)
	}
	claimable, held, err := s.store.Peek(ctx, n)
	if err != nil {
		return err
	}
	s.printSections(append(records(claimable, claimableRecord), records(held, listedRecord)...))
	return nil
}

func deps(ctx context.Context, s *session, args []string) error {
	id, _, err := takeID(args, "deps <id>")
	if err != nil {
		return err
	}
	found, err := s.store.Deps(ctx, id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		s.print("(no dependencies)\n")
	}
	for _, dep := range found {
		s.printf("%*s%s [%s] %s\n", 2*(dep.Depth-1), "", dep.Slug, dep.Status, dep.Title)
	}
	return nil
}
