package backlogs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// Former are the backlogs that a worktree had under other names: of its branch before that was renamed, with another
// origin, or in the folder from which it was moved.
type Former struct {
	Host     host.Host
	Worktree gitrepo.Worktree
}

// List lists the former scopes that have tasks.
func (f Former) List(ctx context.Context) ([]backlog.Other, error) {
	var all []backlog.Other
	err := f.each(ctx, func(s *backlog.Store) error {
		tasks, err := s.Lines(ctx, backlog.Filter{})
		if err == nil && len(tasks) > 0 {
			all = append(all, backlog.Other{Scope: s.Scope(), Tasks: len(tasks)})
		}
		return err
	})
	return all, err
}

// Adopt moves the tasks of a former scope into a backlog, and returns their number.
func (f Former) Adopt(ctx context.Context, into *backlog.Store, scope backlog.Scope) (moved int64, err error) {
	err = f.each(ctx, func(s *backlog.Store) error {
		if s.Scope() != scope {
			return nil
		}
		n, err := into.AdoptFrom(ctx, s)
		moved += n
		return err
	})
	return moved, err
}

// each calls do with each former backlog.
func (f Former) each(ctx context.Context, do func(*backlog.Store) error) error {
	owners, err := f.Host.Owners()
	if err != nil {
		return err
	}
	own, err := f.Host.SandboxName(f.Worktree)
	if err != nil {
		return err
	}
	maps.DeleteFunc(owners, func(name string, o host.Owner) bool {
		_, err := os.Lstat(path(f.Host, name))
		moved := o.Scope == f.Worktree.Scope && host.Missing(o.Root)
		renamed := o.Scope != f.Worktree.Scope && o.Root == f.Worktree.Root
		return err != nil || name == own || !moved && !renamed
	})
	if len(owners) == 0 {
		return nil
	}
	branches, err := host.Branches(ctx, f.Worktree.Root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		scope := owners[name].Scope
		if scope.Branch != f.Worktree.Scope.Branch && slices.Contains(branches, scope.Branch) {
			continue // it was not renamed
		}
		s, err := Read(ctx, f.Host, name, scope)
		if err != nil {
			return err
		}
		if s == nil { // removed meanwhile
			continue
		}
		if err := errors.Join(do(s), s.Close()); err != nil {
			return fmt.Errorf("the backlog of %s: %w", name, err)
		}
	}
	return nil
}
