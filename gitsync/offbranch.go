package gitsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// OffBranch describes the first of some commits, which runs in a sandbox have made elsewhere, that a branch
// of the user lacks; nil if there is none. The user can merge them, or discard them with their refs. Their
// IDs can be an agent's.
func OffBranch(ctx context.Context, wt gitrepo.Worktree, stateDir, name, branch string, commits []string) (*Unmerged, error) {
	lacking, err := Lacking(ctx, wt, branch, commits)
	if err != nil || len(lacking) == 0 {
		return nil, err
	}
	r, err := Open(wt, name, stateDir)
	if err != nil {
		return nil, err
	}
	st, err := r.readState()
	if err != nil {
		return nil, err
	}
	tip, err := r.git.Resolve(ctx, "refs/heads/"+branch)
	if err != nil {
		return nil, err
	}
	for _, commit := range lacking {
		u, err := r.offBranch(ctx, st, branch, tip, commit)
		if err != nil || u != nil {
			return u, err
		}
	}
	return nil, nil
}

// offBranch describes a commit that a branch lacks. It is nil for one whose changes the branch has, and for
// one at no ref: the user or a later run has discarded it, or it was not fetched yet.
func (r *Repo) offBranch(ctx context.Context, st state, branch, tip, commit string) (*Unmerged, error) {
	for _, ref := range slices.Sorted(maps.Keys(st.Refused)) {
		if bad := st.Refused[ref]; bad.ID == commit {
			return &Unmerged{Branch: branch, Why: fmt.Sprintf("commits outside of your branch %s were not fetched: %s", branch, bad.Why), OffBranch: true}, nil
		}
	}
	if has, err := r.HasCommit(ctx, commit); err != nil || !has {
		return nil, err
	}
	args := []string{"for-each-ref", "--format=%(refname)", "--contains=" + commit, r.Prefix()}
	if !st.Clone { // of a live workspace
		args = append(args, "refs/heads")
	}
	refs, err := r.git.Line(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("searching for commit %s: %w", commit, err)
	}
	if refs == "" {
		return nil, nil
	}
	if same, err := r.sameChanges(ctx, tip, commit); err != nil || same {
		return nil, err
	}
	c, err := r.explain(ctx, &Conflict{Kind: offBranch}, branch, tip, commit)
	if err != nil {
		return nil, err
	}
	c.Ref, _, _ = strings.Cut(refs, "\n")
	return &Unmerged{Branch: branch, Ref: c.Ref, Commit: commit, Why: c.Error(), Hints: []string{c.Hint()}, OffBranch: true}, nil
}

// sameChanges reports whether a branch has the changes of a commit and of those before it in other commits:
// they were rebased or picked, or squashed to one.
func (r *Repo) sameChanges(ctx context.Context, tip, commit string) (bool, error) {
	base, err := r.git.Line(ctx, "merge-base", tip, commit)
	if gitrepo.SaysNo(err) || tip == "" {
		return false, nil
	}
	var left, trees, tree string
	if err == nil {
		left, err = r.git.Line(ctx, "rev-list", "--max-count=1", "--cherry-pick", "--right-only", "--no-merges", tip+"..."+commit, "--")
	}
	if err == nil && left != "" {
		trees, err = r.git.Line(ctx, "log", "--format=%T", base+".."+tip, "--")
	}
	if err == nil && left != "" {
		tree, err = r.git.Line(ctx, "rev-parse", "--verify", commit+"^{tree}")
	}
	if err != nil {
		return false, fmt.Errorf("comparing commit %s: %w", commit, err)
	}
	return left == "" || hostgit.IsObjectID(tree) && slices.Contains(strings.Split(trees, "\n"), tree), nil
}
