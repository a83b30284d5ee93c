package guest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// heads returns the commits of the repository's branches, by ref.
func (b *Branch) heads(ctx context.Context) (map[string]string, error) {
	out, err := b.git(ctx, "", "for-each-ref", "--format=%(refname) %(objectname)", refPrefix)
	if err != nil {
		return nil, fmt.Errorf("listing branches: %w", err)
	}
	heads := map[string]string{}
	for line := range strings.Lines(out) {
		if ref, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			heads[ref] = id
		}
	}
	return heads, nil
}

// OffBranch records the branches before a run. After the run and [Branch.Restore], find returns the last
// commits that the run has made elsewhere and whose changes the branch lacks, and those of named commits that it
// lacks, which get a branch if they have none. In a repository that the user works in, too, only the
// worktree's own commits are the run's.
func (b *Branch) OffBranch(ctx context.Context) (find func(ctx context.Context, named []string) ([]string, error), err error) {
	before, err := b.heads(ctx)
	if err != nil {
		return nil, err
	}
	b.left = ""
	return func(ctx context.Context, named []string) ([]string, error) {
		after, err := b.heads(ctx)
		if err != nil {
			return nil, err
		}
		made := map[string]bool{b.left: true}
		for ref, id := range after {
			if b.Private && ref != b.ref && id != before[ref] {
				made[id] = true
			}
		}
		for _, name := range named { // as an agent calls them
			if !strings.HasPrefix(name, "-") {
				made[b.commit(ctx, name)] = true
			}
		}
		delete(made, "")
		found, err := b.lacking(ctx, slices.Sorted(maps.Keys(made)), before)
		if err != nil {
			return nil, fmt.Errorf("searching for commits that branch %s lacks: %w", b.Name(), err)
		}
		for _, id := range found {
			if _, err := b.save(ctx, id); err != nil {
				return found, fmt.Errorf("keeping commit %s: %w", id, err)
			}
		}
		return found, nil
	}, nil
}

// lacking returns those of some commits that neither the branch nor what was there before has.
func (b *Branch) lacking(ctx context.Context, commits []string, before map[string]string) ([]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	stdin := strings.Join(commits, "\n") + "\n"
	for _, id := range append(slices.Collect(maps.Values(before)), b.commit(ctx, b.ref)) {
		if id != "" {
			stdin += "^" + id + "\n"
		}
	}
	out, err := b.git(ctx, stdin, "rev-list", "--ignore-missing", "--stdin")
	if err != nil {
		return nil, err
	}
	lacking := strings.Fields(out)
	commits = slices.DeleteFunc(commits, func(id string) bool { return !slices.Contains(lacking, id) })
	var found []string
	for _, id := range commits {
		same, err := b.sameChanges(ctx, id)
		if err != nil {
			return nil, err
		}
		if !same {
			found = append(found, id)
		}
	}
	return found, nil
}

// sameChanges reports whether the branch has the changes of a commit and of those before it in other commits:
// the run has rebased or picked them, or squashed them to one.
func (b *Branch) sameChanges(ctx context.Context, commit string) (bool, error) {
	tip := b.commit(ctx, b.ref)
	if tip == "" {
		return false, nil
	}
	base, err := b.git(ctx, "", "merge-base", tip, commit)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	var left, trees, tree string
	if err == nil {
		left, err = b.git(ctx, "", "rev-list", "--max-count=1", "--cherry-pick", "--right-only", "--no-merges", tip+"..."+commit, "--")
	}
	if err == nil && left != "" {
		trees, err = b.git(ctx, "", "log", "--format=%T", base+".."+tip, "--")
	}
	if err == nil && left != "" {
		tree, err = b.git(ctx, "", "rev-parse", "--verify", commit+"^{tree}")
	}
	if err != nil {
		return false, fmt.Errorf("comparing commit %s: %w", commit, err)
	}
	return left == "" || slices.Contains(strings.Fields(trees), tree), nil
}
