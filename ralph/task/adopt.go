package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

var errNothingToAdopt = errors.New("no tasks of a branch that was renamed, or of another origin")

// Former are backlogs that were probably those of this worktree.
type Former interface {
	List(ctx context.Context) ([]backlog.Other, error)
	// Adopt moves the tasks of a scope into a backlog, and returns their number.
	Adopt(ctx context.Context, into *backlog.Store, scope backlog.Scope) (int64, error)
}

// sameDatabase are the other scopes of a database.
type sameDatabase struct{ store *backlog.Store }

func (d sameDatabase) List(ctx context.Context) ([]backlog.Other, error) { return d.store.Renamed(ctx) }

func (sameDatabase) Adopt(ctx context.Context, into *backlog.Store, scope backlog.Scope) (int64, error) {
	return into.Adopt(ctx, scope)
}

func formerOr(former Former, store *backlog.Store) Former {
	if former == nil {
		return sameDatabase{store}
	}
	return former
}

// adopt takes over the tasks of a branch that was renamed, or of a repository with another origin.
func adopt(ctx context.Context, s *session, args []string) error {
	if len(args) > 2 {
		return fmt.Errorf("unexpected argument '%s'", args[2])
	}
	former := formerOr(s.Former, s.store)
	renamed, err := former.List(ctx)
	if err != nil {
		return err
	}
	for i, arg := range args {
		renamed = slices.DeleteFunc(renamed, func(o backlog.Other) bool { return arg != [2]string{o.Branch, o.Repo}[i] })
	}
	switch len(renamed) {
	case 0:
		return errNothingToAdopt
	case 1:
	default:
		return hint.Wrap(fmt.Errorf("several branches have tasks: %s", names(renamed)), "name one with %q", "docker ralph task adopt BRANCH REPO")
	}
	n, err := former.Adopt(ctx, s.store, renamed[0].Scope)
	if err != nil {
		return err
	}
	tasks := "tasks"
	if n == 1 {
		tasks = "task"
	}
	s.printf("adopted %d %s of %s, branch %s\n", n, tasks, renamed[0].Repo, renamed[0].Branch)
	return nil
}

// names lists scopes.
func names(others []backlog.Other) string {
	list := make([]string, len(others))
	for i, o := range others {
		list[i] = fmt.Sprintf("%s of %s (%d)", o.Branch, o.Repo, o.Tasks)
	}
	return strings.Join(list, ", ")
}

// AdoptHint is the hint for an empty backlog whose tasks are those of a branch that was renamed, or
// of another origin; empty for none. former is as in [IO].
func AdoptHint(ctx context.Context, s *backlog.Store, former Former) string {
	counts, err := s.Counts(ctx)
	if err != nil || counts != (backlog.Counts{}) {
		return ""
	}
	renamed, err := formerOr(former, s).List(ctx)
	if err != nil || len(renamed) == 0 {
		return ""
	}
	return fmt.Sprintf("Hint: take over the tasks of branch %s with %q", names(renamed), "docker ralph task adopt")
}
