package gitsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/index"
	"github.com/docker-ralph/docker-ralph/gitsync/listing"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Edits are what the working tree of a clone has and its branch has not: changed, new and
// removed files. They are in a commit that no ref has, in the user's repository.
type Edits struct {
	Base   string // the commit that the clone has checked out
	Commit string // Base with the edits
	Paths  []string
}

// editsScript commits the working tree to no branch, with an index of its own, and prints that
// commit; if there are no edits, the one that is checked out after "clean". Files that the user has sent are excluded there.
// Repositories in subdirectories are left out, and printed after it: a link to one is all that a commit would have.
// git add fails for those without a commit, after it has added the rest.
const editsScript = plainGit + `set -e
base=$(git rev-parse -q --verify HEAD) || { echo 'the branch has no commits' >&2; exit 1; }
index=$(git rev-parse --git-path index)
nested=$(git ls-files --others --exclude-standard | grep '/"*$' || :)
GIT_INDEX_FILE=$index.edits$$
export GIT_INDEX_FILE
trap 'rm -f "$GIT_INDEX_FILE"' EXIT
cp "$index" "$GIT_INDEX_FILE"
LC_ALL=C
export LC_ALL
code=0
messages=$(git -c advice.addEmbeddedRepo=false add -A --ignore-errors 2>&1) || code=$?
case $code in 0) ;; 1) ! printf '%s\n' "$messages" | grep '^error: ' | grep -v "/' does not have a commit checked out$" >&2 || exit 1 ;; *) printf '%s\n' "$messages" >&2; exit "$code" ;; esac
git ls-files -s | sed -n 's/^160000 \([0-9a-f]*\) [0-3]/0 \1/p' | git update-index --index-info
git ls-tree -r "$base" | sed -n '/^160000 /p' | git update-index --index-info
tree=$(git write-tree)
if [ "$tree" = "$(git rev-parse "$base^{tree}")" ]; then echo "clean $base"
else git -c user.name=ralph -c user.email=ralph@localhost commit-tree -p "$base" -m 'uncommitted changes' "$tree"
fi
printf '%s\n' "$nested"
`

// countEditsScript counts the files that have edits. Only repositories in subdirectories end with a slash.
const countEditsScript = plainGit + `edits=$(git status --porcelain --untracked-files=all --ignore-submodules=all) || exit
printf '%s' "$edits" | grep -vc '/"*$' || :
`

// CountEdits returns how many files of a clone have edits.
func (r *Repo) CountEdits(ctx context.Context, sh Shell) (n int, err error) {
	var out limited
	if err = r.unblocked(sh)(ctx, countEditsScript, nil, nil, &out); err == nil {
		_, err = fmt.Sscan(out.String(), &n)
	}
	if err != nil {
		return 0, fmt.Errorf("counting uncommitted changes of sandbox %s: %w", r.name, err)
	}
	return n, nil
}

// FetchEdits fetches the edits of a clone, after [Repo.Fetch]; nil if there are none, and none were applied
// before. They are verified like commits. nested are repositories in subdirectories, which edits do not have.
func (r *Repo) FetchEdits(ctx context.Context, sh Shell) (edits *Edits, nested []string, err error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	sh = r.unblocked(sh)
	var out limited
	if err := sh(ctx, editsScript, nil, nil, &out); err != nil {
		return nil, nil, fmt.Errorf("reading uncommitted changes of sandbox %s: %w", r.name, err)
	}
	found, paths, _ := strings.Cut(out.String(), "\n")
	if paths = strings.TrimSpace(paths); paths != "" {
		nested = strings.Split(paths, "\n")
	}
	edits, err = r.fetchEdits(ctx, &st, sh, found)
	return edits, nested, err
}

// fetchEdits fetches the edits that editsScript has found.
func (r *Repo) fetchEdits(ctx context.Context, st *state, sh Shell, found string) (*Edits, error) {
	commit, isClean := strings.CutPrefix(found, "clean ")
	if isClean && st.Applied == "" {
		return nil, nil
	}
	if !hostgit.IsObjectID(commit) {
		return nil, fmt.Errorf("reading uncommitted changes of sandbox %s: unexpected output %.100q", r.name, commit)
	}

	known := slices.Compact(slices.Sorted(maps.Values(st.Tips)))
	_, err := r.receiveObjects(ctx, st, sh, request{known: known, only: commit}, func(listing.Listing) map[string]string {
		return map[string]string{"": commit}
	})
	if err != nil {
		return nil, fmt.Errorf("fetching uncommitted changes of sandbox %s: %w", r.name, err)
	}
	if isClean { // what was applied is undone
		if parent, err := r.git.Resolve(ctx, st.Applied+"^"); err != nil || parent != commit {
			return nil, err
		}
		files, err := r.applied(ctx, *st)
		return &Edits{Base: commit, Commit: commit, Paths: slices.Sorted(maps.Keys(files))}, err
	}
	return r.edits(ctx, commit)
}

// edits describes a commit with edits.
func (r *Repo) edits(ctx context.Context, commit string) (*Edits, error) {
	base, err := r.git.Resolve(ctx, commit+"^")
	if err == nil && base == "" {
		err = fmt.Errorf("the uncommitted changes of sandbox %s are based on no commit", r.name)
	}
	if err != nil {
		return nil, err
	}
	if path, err := r.submodule(ctx, base, commit); err != nil {
		return nil, err
	} else if path != "" { // not made by the script
		return nil, fmt.Errorf("the uncommitted changes of sandbox %s add the submodule %q", r.name, path)
	}
	changes, err := r.git.Changes(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	e := &Edits{Base: base, Commit: commit}
	for _, c := range changes {
		e.Paths = append(e.Paths, c.Path)
	}
	return e, nil
}

// DiffCommand returns a git command that shows edits.
func (r *Repo) DiffCommand(ctx context.Context, e *Edits, options ...string) (*exec.Cmd, error) {
	return r.git.DiffOf(ctx, e.Base, e.Commit, options...)
}

// ApplyEdits brings edits into the user's files, and leaves the index as it is. Either all files
// are written, or none: a file that the user has changed is never overwritten. What was applied
// before, and not changed since, is the user's no more than the rest.
func (r *Repo) ApplyEdits(ctx context.Context, e *Edits) error {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	head, err := r.git.Resolve(ctx, "HEAD")
	if err != nil {
		return err
	}
	if head != e.Base {
		return hint.Wrap(fmt.Errorf("your worktree is at the commit %.7s, the sandbox's changes are based on %.7s", head, e.Base),
			"bring both to the same commit first: switch to branch %s, and commit or merge what is missing on either side", st.Branch)
	}

	st.Pending = &pending{From: head, To: e.Commit, Token: index.NewToken(), Edits: true}
	if err := r.save(st); err != nil {
		return err
	}
	conflict, err := r.checkOutEdits(ctx, &st, e)
	if err != nil {
		return errors.Join(err, r.rollBack(context.WithoutCancel(ctx), st.Pending))
	}
	if conflict == nil {
		st.Applied = e.Commit
	}
	if st.Applied == e.Base {
		st.Applied = ""
	}
	st.Pending = nil
	return errors.Join(asApplyError(conflict), r.save(st))
}

// checkOutEdits writes the files. Those that were applied before, and are still as they were, are
// treated as if they were committed.
func (r *Repo) checkOutEdits(ctx context.Context, st *state, e *Edits) (*Conflict, error) {
	edit := index.New(r.git, st.Pending.Token)
	defer edit.End()
	if conflict, err := lockIndex(ctx, edit); err != nil || conflict != nil {
		return conflict, err
	}
	here := *r
	here.git = edit.Git(r.git)

	from := e.Base
	if st.Applied != "" {
		var err error
		if from, err = here.stageApplied(ctx, edit, st.Applied, e.Base); err != nil {
			return nil, err
		}
	}
	changes, err := here.git.Changes(ctx, from, e.Commit)
	if err != nil {
		return nil, err
	}
	same, conflict, err := here.compare(ctx, changes, len(e.Commit), nil)
	if err != nil || conflict != nil {
		return conflict, err
	}
	if err := r.saveWriting(st, same); err != nil {
		return nil, err
	}
	conflict, _, err = here.checkOut(ctx, edit, same, from, e.Commit)
	return conflict, err
}

// applied returns the files that the user's worktree has got by [Repo.ApplyEdits], with their content then.
func (r *Repo) applied(ctx context.Context, st state) (map[string]string, error) {
	if has, err := r.hasCommit(ctx, st.Applied); err != nil || !has { // git gc may have removed it
		return nil, err
	}
	changes, err := r.git.Changes(ctx, st.Applied+"^", st.Applied)
	files := map[string]string{}
	for _, c := range changes {
		files[c.Path] = c.NewID
	}
	return files, err
}

// stageApplied stages the files that are as they were applied, and returns a tree of them and the base.
func (r *Repo) stageApplied(ctx context.Context, edit index.Edit, applied, base string) (tree string, err error) {
	if parent, err := r.git.Line(ctx, "rev-parse", "-q", "--verify", applied+"^"); err != nil || parent != base {
		return base, ctx.Err() // it was removed by git gc, or the user has committed since
	}
	entries, err := r.git.Index(ctx)
	if err != nil {
		return "", err
	}
	changes, err := r.git.Changes(ctx, base, applied)
	if err != nil {
		return "", err
	}
	same, _ := r.git.Compare(entries, changes, len(base), func(hostgit.Change) bool { return true })
	if same = append(same, r.git.Removed(entries, changes)...); len(same) == 0 {
		return base, nil
	}
	lines := hostgit.IndexInfo(same)
	if _, err := r.git.Output(ctx, strings.NewReader(lines), "update-index", "-z", "--add", "--replace", "--index-info"); err != nil {
		return "", fmt.Errorf("comparing your files with the sandbox's: %w", err)
	}
	return r.treeWith(ctx, edit, base, lines)
}

// treeWith returns the tree of a commit with other entries.
func (r *Repo) treeWith(ctx context.Context, edit index.Edit, base, lines string) (tree string, err error) {
	g := edit.Scratch(r.git)
	if _, err = g.Output(ctx, nil, "read-tree", base); err == nil {
		_, err = g.Output(ctx, strings.NewReader(lines), "update-index", "-z", "--add", "--replace", "--index-info")
	}
	if err == nil {
		tree, err = g.Line(ctx, "write-tree")
	}
	if err != nil {
		return "", fmt.Errorf("comparing your files with the sandbox's: %w", err)
	}
	return tree, nil
}

// asApplyError says why edits were not applied; nil without a conflict.
func asApplyError(c *Conflict) error {
	switch {
	case c == nil:
		return nil
	case c.Kind != fileInTheWay:
		return hint.Wrap(fmt.Errorf("%s: nothing was applied", c.advice().why), "run the command again; if no git process is running, remove that file")
	case c.Repository:
		return hint.Wrap(fmt.Errorf("%s: nothing was applied", c.advice().why), "move it away")
	case c.Ignored:
		return hint.Wrap(fmt.Errorf("your %q, which git ignores, would be overwritten: nothing was applied", c.Detail), "move it away")
	}
	return hint.Wrap(fmt.Errorf("your %q would be overwritten: nothing was applied", c.Detail), "commit, stash or move it away")
}
