package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// errUnprepared says why commits cannot be fetched from a sandbox.
var errUnprepared = errors.New("it was made by another version of docker-ralph: run \"docker ralph task list\" in its work tree to have it prepared")

// fetch brings the commits home that a sandbox of any scope may have alone. It is
// started for that.
func (h Host) fetch(ctx context.Context, l located) error {
	if !l.sb.Private {
		return nil
	}
	wt, err := h.treeOf(ctx, l.sb)
	if h.homeAlready(l, wt) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the commits of the sandbox %s cannot be fetched: %w", l.sb.Name, err)
	}
	if l.at.kind == config.DriverContainer && l.sb.State != lifecycle.Running && gone(l.sb.Root) {
		return hint.Wrap(fmt.Errorf("the sandbox %s has commits that were not fetched, and cannot be started, as %s is gone", l.sb.Name, l.sb.Root),
			"if you have moved it, run %q there", "docker ralph --recreate task list")
	}
	at := l.at
	at.inspect = &inspection{host: h, root: wt.Root, connected: h.Engine}
	if err := h.save(at, wt)(ctx, l.sb); err != nil {
		return err
	}
	if l.at.kind == config.DriverContainer && !gitsync.Saved(h.StateDir, l.sb.Name) {
		return fmt.Errorf("the commits of the sandbox %s cannot be fetched: %w", l.sb.Name, errUnprepared)
	}
	return nil
}

// homeAlready tells of a sandbox that cannot be started, because its work tree is
// gone, but whose commits are all in its repository.
func (h Host) homeAlready(l located, wt gitrepo.Worktree) bool {
	sb := l.sb
	return l.at.kind == config.DriverContainer && sb.State != lifecycle.Running && gone(sb.Root) && gitsync.Saved(h.StateDir, sb.Name) &&
		(h.moved(sb, wt) || sb.MainRoot != "" && !gone(filepath.Join(sb.MainRoot, ".git")))
}

// treeOf is the work tree of a sandbox or, when that is gone, the main one of its
// repository, into which commits can come as well.
func (h Host) treeOf(ctx context.Context, sb lifecycle.Sandbox) (gitrepo.Worktree, error) {
	getenv := func(name string) string {
		return map[string]string{"RALPH_SCOPE_REPO": sb.Scope.Repo, "RALPH_SCOPE_BRANCH": sb.Scope.Branch}[name]
	}
	wt, err := gitrepo.Detect(ctx, sb.Root, getenv)
	if err == nil && wt.Root == sb.Root && (sb.MainRoot == "" || wt.MainRoot == sb.MainRoot) {
		return wt, nil
	}
	if here, found, err := h.workTree(ctx); err == nil && found && h.moved(sb, here) {
		return here, nil
	}
	if sb.MainRoot == "" || sb.MainRoot == sb.Root {
		return wt, fmt.Errorf("its work tree %s is gone", sb.Root)
	}
	wt, err = gitrepo.Detect(ctx, sb.MainRoot, getenv)
	if err != nil || wt.Root != sb.MainRoot {
		return wt, fmt.Errorf("its work tree %s and its repository %s are gone", sb.Root, sb.MainRoot)
	}
	return wt, nil
}
