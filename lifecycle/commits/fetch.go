// Package commits fetches commits from sandboxes and pushes the user's to them, with a secret
// scan.
package commits

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitrepo/worktrees"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// errUnprepared is the error for a sandbox whose commits this version cannot fetch.
var errUnprepared = hint.Wrap(errors.New("created by another version of docker-ralph"), "run %q in its worktree", "docker ralph repair")

// FetchFrom fetches the commits of a sandbox of any scope, which it starts if necessary.
func FetchFrom(ctx context.Context, h host.Host, l host.Located) error {
	if !l.Sandbox.Private {
		return nil
	}
	wt, err := worktreeOf(ctx, h, l.Sandbox)
	if err != nil {
		return fmt.Errorf("the commits of sandbox %s cannot be fetched: %w", l.Sandbox.Name, err)
	}
	if err := Save(h, l.Backend, scanOf(h, l, wt), wt)(ctx, l.Sandbox); err != nil {
		return err
	}
	if !gitsync.Saved(h.StateDir, l.Sandbox.Name) {
		return fmt.Errorf("the commits of sandbox %s cannot be fetched: %w", l.Sandbox.Name, errUnprepared)
	}
	return nil
}

// scanOf returns the scan of commits that no command with a scan fetches.
func scanOf(h host.Host, l host.Located, wt gitrepo.Worktree) *Scan {
	i := &Scan{Host: h, Root: wt.Root, Connected: h.Engine}
	if api := l.Backend.API; api != nil {
		i.Connected = func() (host.API, error) { return api, nil }
	}
	return i
}

// Fetched reports whether an existing repository has all commits of a sandbox whose worktree is missing, and
// no other worktree with its branch, to which that may have been moved.
func Fetched(ctx context.Context, h host.Host, sb lifecycle.Sandbox) bool {
	if !sb.Private {
		return true
	}
	if sb.MainRoot == "" || host.Missing(filepath.Join(sb.MainRoot, ".git")) || !gitsync.AllFetched(h.StateDir, sb.Name) {
		return false
	}
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return false
	}
	repo, err := worktrees.Open(wt)
	if err != nil {
		return false
	}
	trees, err := repo.List(ctx)
	return err == nil && !slices.ContainsFunc(trees, func(t worktrees.Tree) bool { return t.Branch == sb.Scope.Branch && !t.Missing })
}

// worktreeOf returns the worktree of a sandbox or, if that does not exist, the main one of its
// repository.
func worktreeOf(ctx context.Context, h host.Host, sb lifecycle.Sandbox) (gitrepo.Worktree, error) {
	getenv := func(name string) string {
		return map[string]string{"RALPH_SCOPE_REPO": sb.Scope.Repo, "RALPH_SCOPE_BRANCH": sb.Scope.Branch}[name]
	}
	wt, err := gitrepo.Detect(ctx, sb.Root, getenv)
	if err == nil && wt.Root == sb.Root && (sb.MainRoot == "" || wt.MainRoot == sb.MainRoot) {
		return wt, nil
	}
	if here, found, err := h.CurrentWorktree(ctx); err == nil && found && h.Moved(sb, here) {
		return here, nil
	}
	if sb.MainRoot == "" || sb.MainRoot == sb.Root {
		return wt, fmt.Errorf("worktree %s does not exist", sb.Root)
	}
	wt, err = gitrepo.Detect(ctx, sb.MainRoot, getenv)
	if err != nil || wt.Root != sb.MainRoot {
		return wt, fmt.Errorf("worktree %s and repository %s do not exist", sb.Root, sb.MainRoot)
	}
	return wt, nil
}
