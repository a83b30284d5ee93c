package gitsync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// operations are what git leaves in its directory while something is under way
// that the user has to finish.
func operations() [][2]string {
	return [][2]string{
		{"rebase-merge", "rebase"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"sequencer", "cherry-pick or revert"},
		{"BISECT_LOG", "bisect"},
	}
}

// underWay names the operation that the user has begun; empty for none.
func (r *Repo) underWay() string {
	for _, op := range operations() {
		if exists(r.gitDir, op[0]) {
			return op[1]
		}
	}
	return ""
}

const useDirect = `or set sandbox.git to "direct"`

// Check refuses repositories and moments that an agent cannot work in with a git
// directory of its own, with the reason and what to do.
func (r *Repo) Check(ctx context.Context) error {
	if op := r.underWay(); op != "" {
		return fmt.Errorf("a %s is under way in this work tree: finish or abort it first (see \"git status\")", op)
	}
	branch, err := r.git.branch(ctx)
	if err != nil {
		return err
	}
	if branch == "" {
		return errors.New("detached HEAD state. Checkout a branch first, " + useDirect)
	}
	return r.check(ctx, true)
}

// CheckKind refuses repositories that there cannot be a git directory of the
// sandbox's own for, at any moment.
func (r *Repo) CheckKind(ctx context.Context) error { return r.check(ctx, false) }

func (r *Repo) check(ctx context.Context, moment bool) error {
	if info, err := os.Lstat(filepath.Join(r.root, ".git")); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link or cannot be read, so nothing can lie over it: replace it by a .git file (\"git init --separate-git-dir\"), %s", filepath.Join(r.root, ".git"), useDirect)
	}
	if _, err := objects(r.commonDir); err != nil {
		return err
	}
	if err := r.checkPartial(ctx); err != nil {
		return err
	}
	if err := r.checkConfig(ctx); err != nil {
		return err
	}
	entries, err := r.git.entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.mode == gitlink:
			return fmt.Errorf("this repository has submodules (%q), whose git directories a sandbox must not change: run in the submodule itself, %s", e.path, useDirect)
		case e.stage != 0 && moment:
			return fmt.Errorf("%q has conflicts that are not resolved: resolve them first (see \"git status\")", e.path)
		}
	}
	return nil
}

// checkPartial refuses repositories that fetch objects when they are needed.
func (r *Repo) checkPartial(ctx context.Context) error {
	out, err := r.git.run(ctx, nil, "config", "-z", "--get-regexp", `^(extensions\.partialclone|remote\..*\.promisor)$`)
	if err != nil && !gitrepo.SaysNo(err) {
		return fmt.Errorf("reading git's configuration: %w", err)
	}
	if len(out) > 0 {
		return fmt.Errorf("this is a partial clone, whose missing objects a sandbox cannot fetch: make a full clone, %s", useDirect)
	}
	return nil
}

const gitlink = "160000"

// entry is one of the index.
type entry struct {
	tag   byte // as git ls-files -v shows it
	mode  string
	oid   string
	stage byte
	path  string
}

// entries lists the index, in its order.
func (g git) entries(ctx context.Context) ([]entry, error) {
	out, err := g.run(ctx, nil, "ls-files", "-z", "-s", "-v")
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	entries := make([]entry, 0, bytes.Count(out, []byte{0}))
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		info, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(info)
		if len(f) != 4 {
			return nil, fmt.Errorf("reading the index: %q was not understood", line)
		}
		entries = append(entries, entry{tag: f[0][0], mode: f[1], oid: f[2], stage: f[3][0] - '0', path: path})
	}
	return entries, nil
}
