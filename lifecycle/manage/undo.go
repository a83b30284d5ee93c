package manage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// UndoOptions are the options of [Undo].
type UndoOptions struct {
	// Worktree is the worktree of the loop; nil for the current one.
	Worktree *host.Worktree
	// Loop is the ID of a loop of the branch; empty for the last one.
	Loop string
	// Force skips the confirmation.
	Force bool
	// DryRun changes nothing.
	DryRun bool
}

// Undo takes the commits of a loop back from the user's branch, once the user agrees, and reopens the tasks that it has
// completed. It returns what it did or, with DryRun, would do, in sentences.
func Undo(ctx context.Context, h host.Host, opts UndoOptions) ([]string, error) {
	wt, name, err := LoopTarget{Worktree: opts.Worktree}.Find(ctx, h)
	if err != nil {
		return nil, err
	}
	if err := CheckSettled(ctx, h, wt, name); err != nil {
		return nil, err
	}
	store, err := backlogs.Read(ctx, h, name, wt.Scope)
	if err != nil {
		return nil, err
	}
	if store != nil {
		defer func() { _ = store.Close() }() // each change has been written
	}
	loop, runs, tasks, err := workOf(ctx, h.LogsDir(name), store, opts.Loop)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && opts.Loop == "":
		return nil, noLoop(wt)
	case missing:
		return nil, hint.Wrap(fmt.Errorf("no log of a loop %q of %s", opts.Loop, wt.Scope.Branch), "list loops with %q", "docker ralph ls --loops")
	case err != nil:
		return nil, err
	}
	repo, err := gitsync.Open(wt, name, h.StateDir)
	if err != nil {
		return nil, err
	}
	u, err := repo.PlanUndo(ctx, loop, runs)
	if err != nil {
		return nil, err
	}
	if opts.DryRun {
		return undone("Would move", "Would reopen", loop, u, tasks), nil
	}
	if err := confirmUndo(ctx, h, opts, strings.Join(undone("This moves", "It reopens", loop, u, tasks), "\n")); err != nil {
		return nil, err
	}
	if err := repo.Undo(ctx, u); err != nil {
		return nil, err
	}
	reopened, err := reopenUndone(context.WithoutCancel(ctx), store, tasks, loop, u.Ref)
	return undone("Moved", "Reopened", loop, u, reopened), err
}

// workOf returns the ID of a loop, the last commits of its runs, and the tasks that it has completed.
func workOf(ctx context.Context, logs string, store *backlog.Store, id string) (loop string, runs, tasks []string, err error) {
	log, err := runlog.Find(logs, LoopLog{Loop: id}.selected)
	if err != nil {
		return "", nil, nil, err
	}
	defer log.Close()
	loop = log.Loop.ID
	for _, run := range log.Iterations() {
		if run.Commit != "" {
			runs = append(runs, run.Commit)
		}
	}
	if store == nil {
		return loop, runs, nil, nil
	}
	accepted, err := store.Accepted(ctx)
	for _, t := range accepted {
		if t.Receipt.Loop == loop {
			tasks, runs = append(tasks, t.Slug), append(runs, t.Receipt.Commit)
		}
	}
	return loop, runs, tasks, err
}

// undone says what is taken back and reopened.
func undone(move, reopen, loop string, u *gitsync.Undo, tasks []string) []string {
	said := []string{fmt.Sprintf("%s your branch %s back to %.7s, keeping %s of loop %s at %s",
		move, termsafe.Name(u.Branch), u.To, host.Count(u.Commits, "commit"), loop, u.Ref)}
	if len(tasks) > 0 {
		said = append(said, fmt.Sprintf("%s %s: %s", reopen, host.Count(len(tasks), "task"), termsafe.Line(strings.Join(tasks, ", "))))
	}
	return said
}

func confirmUndo(ctx context.Context, h host.Host, opts UndoOptions, what string) error {
	switch {
	case opts.Force:
		return nil
	case h.Confirm == nil:
		return hint.Wrap(errors.New("refusing to take commits back without confirmation"), "preview with --dry-run, or pass --force")
	}
	yes, err := h.Confirm(ctx, what+"\nContinue?")
	if err == nil && !yes {
		err = errors.New("canceled")
	}
	return err
}

// reopenUndone makes tasks open again. One that was changed meanwhile may be active.
func reopenUndone(ctx context.Context, store *backlog.Store, tasks []string, loop, ref string) (reopened []string, err error) {
	for _, id := range tasks {
		if failed := store.MakeOpen(ctx, id, fmt.Sprintf("the commits of loop %s were taken back by the user: they are at %s", loop, ref)); failed != nil {
			err = errors.Join(err, fmt.Errorf("reopening task %s: %w", termsafe.Line(id), failed))
			continue
		}
		reopened = append(reopened, id)
	}
	return reopened, err
}

// CheckSettled refuses to change or publish the branch of a loop that works, or whose commits it does not have.
func CheckSettled(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) error {
	works, err := loopWorks(ctx, h, wt, name)
	if err != nil {
		return err
	}
	if works {
		return hint.Wrap(fmt.Errorf("a loop is working on your branch %s", wt.Scope.Branch), "stop it with %q", "docker ralph stop")
	}
	if u := commits.UnmergedOf(ctx, h, lifecycle.Sandbox{Name: name, Root: wt.Root, MainRoot: wt.MainRoot, Scope: wt.Scope}); u != nil {
		return commits.NewUnmergedError(*u)
	}
	return nil
}

// loopWorks reports whether a loop of the branch works. One whose command on this machine is gone may go on in its
// sandbox.
func loopWorks(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string) (bool, error) {
	if liveLoop(h, wt, name).ID != "" {
		return true, nil
	}
	left, err := h.RecordsOf(name)
	left = slices.DeleteFunc(left, func(n host.Record) bool { return n.Live || !n.IsLoop() || n.Scope != wt.Scope || n.Root != wt.Root })
	if err != nil || len(left) == 0 {
		return false, err
	}
	l, err := h.Locate(ctx, name)
	if err != nil || l.Sandbox.State != lifecycle.Running {
		return false, err
	}
	running, err := l.Backend.Driver.Dispatches(ctx, l.Sandbox)
	return slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool {
		return slices.ContainsFunc(left, func(n host.Record) bool { return n.ID == d.ID })
	}), err
}
