package gitsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// operation returns the git operation in progress; empty for none.
func (r *Repo) operation() string {
	for _, op := range [][2]string{
		{"rebase-merge", "rebase"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"sequencer", "cherry-pick or revert"},
		{"BISECT_LOG", "bisect"},
	} {
		if exists(r.git.GitDir, op[0]) {
			return op[1]
		}
	}
	return ""
}

// usedElsewhere returns the operation of another worktree that has started from a branch, and moves or checks
// it out at its end; empty for none.
func (r *Repo) usedElsewhere(branch string) string {
	dirs, _ := filepath.Glob(filepath.Join(r.git.CommonDir, "worktrees", "*"))
	for _, dir := range append(dirs, r.git.CommonDir) {
		at, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if dir == r.git.GitDir || err == nil && !exists(strings.TrimSpace(string(at))) { // it was removed
			continue
		}
		for _, f := range [][3]string{
			{"rebase-merge/head-name", "refs/heads/" + branch, "rebase"},
			{"rebase-apply/head-name", "refs/heads/" + branch, "rebase"},
			{"BISECT_START", branch, "bisect"},
		} {
			if name, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f[0]))); err == nil && strings.TrimSpace(string(name)) == f[1] {
				return f[2]
			}
		}
	}
	return ""
}

// Check refuses repositories, and states of a repository, in which no agent can be
// started with a clone.
func (r *Repo) Check(ctx context.Context) error {
	if op := r.operation(); op != "" {
		return hint.Wrap(fmt.Errorf("a %s is in progress in this worktree", op), "finish or abort it: see %q", "git status")
	}
	if _, err := r.branch(ctx); err != nil {
		return err
	}
	return r.check(ctx, true)
}

// branch returns the user's branch that the sandbox gets, without which a clone gets nothing.
func (r *Repo) branch(ctx context.Context) (string, error) {
	if r.onto != "" {
		return r.onto, nil
	}
	branch, err := r.git.Branch(ctx)
	if err == nil && branch == "" {
		err = hint.Wrap(gitrepo.ErrDetached, "switch to a branch, or pass --workspace live")
	}
	return branch, err
}

// OnBranch returns the repository for a command on the branch that is checked out now. What the user checks out
// later, such as while an image is built, does not change the branch that the sandbox gets.
func (r *Repo) OnBranch(ctx context.Context) (*Repo, error) {
	with := *r
	var err error
	with.onto, err = r.git.Branch(ctx)
	return &with, err
}

// branchToPush returns the user's branch that a push brings to the sandbox.
func (r *Repo) branchToPush(ctx context.Context, st *state) (string, error) {
	switch {
	case r.stay:
		return st.Branch, nil
	case r.onto == "" || !r.changes:
		return r.branch(ctx)
	}
	now, err := r.git.Branch(ctx)
	if err == nil && now != r.onto {
		err = hint.Wrap(fmt.Errorf("your worktree is not on branch %s any more", r.onto), "run the command again: --with-changes sends the changes of the branch that is checked out")
	}
	return r.onto, err
}

// CheckKind refuses repositories that cannot be cloned.
func (r *Repo) CheckKind(ctx context.Context) error { return r.check(ctx, false) }

func (r *Repo) check(ctx context.Context, conflicts bool) error {
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	if config.Last("extensions", "partialclone") != "" || config.Has("remote", "promisor") {
		return liveHint(errors.New("partial clone: it lacks objects that the sandbox needs"), "make a full clone")
	}
	if file := r.git.ExposedConfig(config); file != "" {
		return liveHint(fmt.Errorf("git configuration in the worktree: an agent that writes %s could run programs as you", file), "include a copy outside of the worktree")
	}
	index, err := r.git.Index(ctx)
	if err != nil {
		return err
	}
	for _, e := range index {
		if e.Stage != "0" && conflicts {
			return hint.Wrap(fmt.Errorf("unresolved conflicts in %q", e.Path), "resolve them: see %q", "git status")
		}
	}
	return nil
}

// liveHint adds a remedy, and the one that always works.
func liveHint(err error, remedy string) error {
	return hint.Wrap(err, "%s, or pass --workspace live", remedy)
}
