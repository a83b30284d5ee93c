package amend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/filters"
)

// rewrite removes entries from commits.
type rewrite struct {
	Worktree
	start, head string
	commits     []string // from start to head, parents first
	remove      map[filters.Entry]File
	before      []filters.Entry // of start, at the paths of remove or below
}

// find finds what is to be removed: links and raw content that were not there before.
func (r *rewrite) find(ctx context.Context) error {
	changes, err := filters.Changes(ctx, r.program(), r.commits)
	if err != nil {
		return err
	}
	lacking, err := filters.Lacking(ctx, r.program())
	if err != nil {
		return err
	}
	raw, err := filters.Find(ctx, r.program(), r.head, changes, lacking)
	if err != nil {
		return err
	}
	r.remove = map[filters.Entry]File{}
	for _, f := range raw {
		r.remove[f.Entry] = File{Path: f.Path, Filter: f.Filter}
	}
	for _, e := range changes {
		if e.Mode == filters.Link {
			r.remove[e] = File{Path: e.Path}
		}
	}
	if len(r.remove) == 0 || r.start == "" {
		return nil
	}
	return r.compare(ctx)
}

// compare excludes what is as before the run, and records what was there instead of the rest.
func (r *rewrite) compare(ctx context.Context) error {
	tree, err := filters.Tree(ctx, r.program(), r.start)
	if err != nil {
		return err
	}
	submodules, paths := map[string]bool{}, map[string]bool{}
	for _, e := range tree {
		submodules[e.Path] = e.Mode == filters.Link
		delete(r.remove, e)
		for _, mode := range []string{"100644", "100755"} {
			delete(r.remove, filters.Entry{Mode: mode, ID: e.ID, Path: e.Path})
		}
	}
	for e, f := range r.remove {
		f.Submodule = f.Filter == "" && submodules[e.Path]
		r.remove[e] = f
		paths[e.Path] = true
	}
	for _, e := range tree {
		if paths[e.Path] || slices.ContainsFunc(parents(e.Path), func(dir string) bool { return paths[dir] }) {
			r.before = append(r.before, e)
		}
	}
	return nil
}

// parents returns the directories of a path.
func parents(path string) (dirs []string) {
	for i, c := range path {
		if c == '/' {
			dirs = append(dirs, path[:i])
		}
	}
	return dirs
}

// run rewrites the commits, and moves the branch and the index.
func (r *rewrite) run(ctx context.Context) (rewritten map[string]string, err error) {
	rewritten = map[string]string{}
	for _, id := range r.commits {
		if rewritten[id], err = r.commit(ctx, id, rewritten); err != nil {
			return nil, fmt.Errorf("rewriting commit %s: %w", id, err)
		}
	}
	_, err = r.git(ctx, "", "update-ref", "-m", "ralph: leave out what cannot leave the sandbox", "HEAD", rewritten[r.head], r.head)
	if err != nil {
		return nil, err
	}
	_, err = r.clean(ctx, r.program())
	return rewritten, err
}

// commit returns the new ID of a commit. One that only had what is removed is its parent's.
func (r *rewrite) commit(ctx context.Context, id string, rewritten map[string]string) (string, error) {
	text, err := run(ctx, r.program(), "", "cat-file", "commit", id)
	if err != nil {
		return "", err
	}
	old := parse(text)
	c := old
	c.parents = nil
	for _, parent := range old.parents {
		if to := rewritten[parent]; to != "" {
			parent = to
		}
		if !slices.Contains(c.parents, parent) {
			c.parents = append(c.parents, parent)
		}
	}
	if c.tree, err = r.tree(ctx, id, old.tree); err != nil {
		return "", err
	}
	if c.tree == old.tree && slices.Equal(c.parents, old.parents) {
		return id, nil
	}
	if empty, err := r.empty(ctx, c); err != nil {
		return "", err
	} else if empty {
		if before, err := r.empty(ctx, old); err != nil || !before {
			return c.parents[0], err
		}
	}
	return r.write(ctx, c)
}

// empty reports whether a commit has the tree of its only parent.
func (r *rewrite) empty(ctx context.Context, c commit) (bool, error) {
	if len(c.parents) != 1 {
		return false, nil
	}
	tree, err := r.git(ctx, "", "rev-parse", c.parents[0]+"^{tree}")
	return tree == c.tree, err
}

// tree returns the tree of a commit without what is removed.
func (r *rewrite) tree(ctx context.Context, commit, tree string) (string, error) {
	g, remove, err := filters.WithIndex(ctx, r.program())
	if err != nil {
		return "", err
	}
	defer remove()
	if _, err := run(ctx, g, "", "read-tree", commit); err != nil {
		return "", err
	}
	if changed, err := r.clean(ctx, g); err != nil || !changed {
		return tree, err
	}
	out, err := run(ctx, g, "", "write-tree")
	return strings.TrimSpace(out), err
}

// clean replaces in an index what is removed by what was there before the run.
func (r *rewrite) clean(ctx context.Context, g gitrepo.Git) (changed bool, err error) {
	out, err := run(ctx, g, "", "ls-files", "-s", "-z")
	if err != nil {
		return false, err
	}
	var removed, added strings.Builder
	paths := map[string]bool{}
	for line := range strings.SplitSeq(out, "\x00") {
		info, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(info)
		if len(f) != 3 {
			continue
		}
		if _, is := r.remove[filters.Entry{Mode: f[0], ID: f[1], Path: path}]; is {
			paths[path] = true
			_, _ = fmt.Fprintf(&removed, "0 %s\t%s\x00", strings.Repeat("0", len(f[1])), path)
		}
	}
	if len(paths) == 0 {
		return false, nil
	}
	for _, e := range r.before {
		if paths[e.Path] || slices.ContainsFunc(parents(e.Path), func(dir string) bool { return paths[dir] }) {
			_, _ = fmt.Fprintf(&added, "%s %s\t%s\x00", e.Mode, e.ID, e.Path)
		}
	}
	_, err = run(ctx, g, removed.String()+added.String(), "update-index", "-z", "--add", "--index-info")
	return true, err
}
