// Package pullrequest pushes the branch of loops and opens a pull request that describes them by their receipts.
//
// The branch goes out with the user's git, and the program of the forge is the user's as well. Neither runs a program
// that the repository names: its configuration, hooks and files can be an agent's.
package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Options are the options of [Open].
type Options struct {
	// Worktree is the worktree of the branch; nil for the current one.
	Worktree *host.Worktree
	// Title and Base have defaults if they are empty.
	Title, Base string
	Draft       bool
	// DryRun prints the pull request only.
	DryRun bool
}

// proposal is a pull request.
type proposal struct {
	Branch, Base, Title, Body string
	Draft                     bool
}

// Open pushes the current branch to origin and opens a pull request with the program of the forge, or prints the URL at
// which the user can open it.
func Open(ctx context.Context, h host.Host, opts Options) error {
	wt, name, err := manage.LoopTarget{Worktree: opts.Worktree}.Find(ctx, h)
	if err != nil {
		return err
	}
	if err := manage.CheckSettled(ctx, h, wt, name); err != nil {
		return err
	}
	origin, err := wt.Origin(ctx)
	if err != nil {
		return err
	}
	f, ok := forgeOf(origin)
	if !ok {
		return hint.Wrap(errors.New(`the git remote "origin" is not a repository on a git host`), "set its URL with %q", "git remote set-url origin URL")
	}
	git, err := gitrepo.NewGit(wt.Root)
	if err != nil {
		return err
	}
	b := branch{git: git, name: wt.Scope.Branch}
	if err := b.find(ctx, opts.Base); err != nil {
		return err
	}
	tasks, err := tasksOf(ctx, h, wt, name, b.commits)
	if err != nil {
		return err
	}
	p := proposal{Branch: b.name, Base: b.base, Draft: opts.Draft, Body: bodyOf(tasks, len(b.commits))}
	if p.Title = opts.Title; p.Title == "" {
		if p.Title, err = b.title(ctx, tasks); err != nil {
			return err
		}
	}
	if opts.DryRun {
		h.Report(fmt.Sprintf("Would push %s and open a pull request into %s at %s", termsafe.Name(b.name), termsafe.Name(b.base), f.url()))
		_, err = fmt.Fprintf(h.Stdout, "%s\n\n%s", termsafe.Line(p.Title), p.Body)
		return err
	}
	if err := push(ctx, h, git, b); err != nil {
		return err
	}
	return open(ctx, h, git, f, p)
}

// tasksOf returns the tasks that were completed with one of some commits.
func tasksOf(ctx context.Context, h host.Host, wt gitrepo.Worktree, name string, commits map[string]bool) (tasks []backlog.Task, err error) {
	store, err := backlogs.Read(ctx, h, name, wt.Scope)
	if err != nil || store == nil {
		return nil, err
	}
	accepted, err := store.Accepted(ctx)
	for _, t := range accepted {
		if commits[t.Receipt.Commit] {
			tasks = append(tasks, t)
		}
	}
	return tasks, errors.Join(err, store.Close())
}

// push pushes a branch, unless the remote has it.
func push(ctx context.Context, h host.Host, git gitrepo.Git, b branch) error {
	if pushed, err := b.resolve(ctx, "refs/remotes/origin/"+b.name); err != nil || pushed == b.tip {
		return err
	}
	by := fmt.Sprintf("push the branch with \"git push origin %s\", then run the command again", b.name)
	setting, err := git.PushProgram(ctx)
	if err != nil {
		return err
	}
	if setting != "" {
		return hint.Wrap(fmt.Errorf("%s in the configuration of this repository names a program for git push, which docker ralph does not run", setting), "%s", by)
	}
	cmd, err := git.Push(ctx, "origin", b.name)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, h.Stderr, h.Stderr
	if err := cmd.Run(); err != nil {
		return hint.Wrap(fmt.Errorf("pushing %s: %w", termsafe.Name(b.name), err), "%s", by)
	}
	return nil
}

// open opens a pull request of a branch that was pushed.
func open(ctx context.Context, h host.Host, git gitrepo.Git, f forge, p proposal) error {
	program, err := exec.LookPath(cmp.Or(f.program, "gh"))
	if f.program == "" || errors.Is(err, exec.ErrNotFound) {
		h.Report("Open the pull request at this URL:")
		_, err := fmt.Fprintln(h.Stdout, f.page(p))
		return err
	}
	if err != nil {
		return fmt.Errorf("searching for %s: %w", f.program, err)
	}
	cmd := exec.CommandContext(ctx, program, f.command(p)...)
	cmd.Dir = git.Dir
	if f.program == "gh" { // it needs no repository, in which it would run git status
		if cmd.Dir, err = os.MkdirTemp("", "ralph-pr-"); err != nil {
			return fmt.Errorf("creating a directory for gh: %w", err)
		}
		defer func() { _ = os.RemoveAll(cmd.Dir) }()
	}
	if cmd.Env, err = git.ForOthers(ctx); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(p.Body), h.Stdout, h.Stderr
	if err := cmd.Run(); err != nil {
		return hint.Wrap(fmt.Errorf("%s was pushed, but %s failed: %w", termsafe.Name(p.Branch), f.program, err),
			"open the pull request at %s", f.page(proposal{Branch: p.Branch, Base: p.Base}))
	}
	return nil
}
