package manage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/task"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Backlog is the backlog of a worktree, open for commands of its user.
type Backlog struct {
	store    *backlog.Store
	host     host.Host
	worktree gitrepo.Worktree
}

// OpenBacklog opens the backlog of a worktree, nil for the current one. It creates a missing worktree.
func OpenBacklog(ctx context.Context, h host.Host, w *host.Worktree) (*Backlog, error) {
	h, err := h.Into(ctx, w, nil)
	if err != nil {
		return nil, err
	}
	wt, err := gitrepo.Detect(ctx, h.Dir, h.Getenv)
	if err != nil {
		return nil, err
	}
	s, err := backlogs.Open(ctx, h, wt)
	if err != nil {
		return nil, err
	}
	return &Backlog{s, h, wt}, nil
}

// Close closes the backlog.
func (b *Backlog) Close() error { return b.store.Close() }

// Run runs a task command, and returns its exit code.
func (b *Backlog) Run(ctx context.Context, args []string) (code int, err error) {
	io := task.IO{
		Stdin: b.host.Stdin, Stdout: b.host.Stdout, Stderr: b.host.Stderr, Getenv: b.host.Getenv, Hints: true,
		Store: b.store, Former: backlogs.Former{Host: b.host, Worktree: b.worktree},
	}
	switch {
	case len(args) == 0:
	case args[0] == "plan-sync":
		io.Specs, err = b.specs()
	case args[0] == "show":
		io.Attempts, err = b.attempts(ctx)
	}
	if err != nil {
		return 0, err
	}
	return task.Run(ctx, args, io), nil
}

// specs lists the specs of the current directory, or else of the worktree.
func (b *Backlog) specs() ([]string, error) {
	dir := filepath.Join(b.host.Dir, "specs")
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Join(b.worktree.Root, "specs")
	}
	return backlog.SpecFiles(dir)
}

// attempts returns the refs of attempts, by task and the newest first: branches of a live sandbox, and what was fetched
// of those of a clone.
func (b *Backlog) attempts(ctx context.Context) (map[string][]string, error) {
	name, err := b.host.SandboxName(b.worktree)
	if err != nil {
		return nil, err
	}
	git, err := gitrepo.NewGit(b.worktree.Root)
	if err != nil {
		return nil, err
	}
	fetched := "refs/ralph/" + name + "/" + refname.Attempts
	out, err := git.Run(ctx, "for-each-ref", "--sort=-committerdate", "--format=%(refname)", attemptref.Prefix, fetched)
	if err != nil {
		return nil, fmt.Errorf("listing attempts: %w", err)
	}
	refs := map[string][]string{}
	for ref := range strings.FieldsSeq(out) {
		for _, prefix := range []string{attemptref.Prefix, fetched} {
			if id, ok := attemptref.Task(prefix, ref); ok {
				refs[id] = append(refs[id], ref)
			}
		}
	}
	return refs, nil
}

// Questions returns the questions without an answer.
func (b *Backlog) Questions(ctx context.Context) ([]taskjson.OpenQuestion, error) {
	return backlogs.OpenQuestions(ctx, b.store)
}

// TaskName is a task for shell completion. Agents write both fields; Title is safe for a terminal.
type TaskName struct{ ID, Title string }

// TaskNames returns the tasks of a worktree, nil for the current one, that have one of the statuses; without
// statuses, all but deleted ones.
func TaskNames(ctx context.Context, h host.Host, w *host.Worktree, statuses []string) (names []TaskName, err error) {
	wt, name, err := existingScope(ctx, h, w)
	if err != nil {
		return nil, err
	}
	s, err := backlogs.Read(ctx, h, name, wt.Scope)
	if err != nil || s == nil {
		return nil, err
	}
	lines, err := s.Lines(ctx, backlog.Filter{Statuses: statuses})
	for _, l := range lines {
		names = append(names, TaskName{ID: l.Slug, Title: termsafe.Line(l.Title)})
	}
	return names, errors.Join(err, s.Close())
}

// existingScope returns an existing worktree, nil for the current one, and the name of its sandbox.
func existingScope(ctx context.Context, h host.Host, w *host.Worktree) (wt gitrepo.Worktree, name string, err error) {
	h, found, err := h.Existing(ctx, w)
	if err == nil && !found {
		err = hint.Wrap(fmt.Errorf("no worktree %q", w.Name), "list them with %q", "docker ralph worktree ls")
	}
	if err != nil {
		return wt, "", err
	}
	if wt, err = h.LoopWorktree(ctx); err != nil {
		return wt, "", err
	}
	name, err = h.SandboxName(wt)
	return wt, name, err
}
