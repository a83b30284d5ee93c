package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// WithChanges returns the repository of a clone to which pushes bring the user's
// uncommitted changes too. They stay uncommitted there, and out of the sandbox's commits.
func (r *Repo) WithChanges() *Repo {
	with := *r
	with.changes = true
	return &with
}

// sendChangesScript writes files as in a side commit, without a change to HEAD and the
// index. Its arguments are the commit that the sandbox is at and the side commit; its input
// is a line that is not used, an empty one, and a pack. The ref keeps the objects. What the
// sandbox has not committed, and is in the way, becomes a stash.
const sendChangesScript = plainGit + `set -e
while IFS= read -r line && [ -n "$line" ]; do :; done
git index-pack --stdin --fix-thin >/dev/null
git update-ref refs/ralph/changes "$2"
index=$(git rev-parse --git-path index)
trap 'rm -f "$index.changes"' EXIT
checkout() (
	cp "$index" "$index.changes"
	export GIT_INDEX_FILE="$index.changes"
	git update-index -q --refresh || :
	git read-tree -m -u "$@"
)
checkout "$@" 2>/dev/null || {
	` + stashCommand + `
	checkout "$@"
}
git update-index -q --refresh || :
`

// removeChangesScript is the reverse. Its input is what was sent, for update-index. If the
// agent has changed those files since, they become a stash.
const removeChangesScript = plainGit + `set -e
index=$(git rev-parse --git-path index)
trap 'rm -f "$index.changes"' EXIT
(
	export GIT_INDEX_FILE="$index.changes"
	git read-tree HEAD
	git update-index -z --add --index-info
	tree=$(git write-tree)
	git update-index -q --refresh || :
	git read-tree -m -u "$tree" HEAD 2>/dev/null
) || ` + stashCommand + `
git update-index -q --refresh || :
`

// sent is a change of the user that a clone has.
type sent struct {
	Path []byte `json:"path"` // not always UTF-8
	Mode string `json:"mode"` // 0 for a removed file
	ID   string `json:"id"`
}

// removeChanges removes changes that were sent to a clone.
func (r *Repo) removeChanges(ctx context.Context, st *state, sh Shell) error {
	if len(st.Sent) == 0 {
		return nil
	}
	if err := r.exclude(ctx, st, sh, nil, nil); err != nil {
		return err
	}
	var input strings.Builder
	for _, s := range st.Sent {
		_, _ = fmt.Fprintf(&input, "%s %s\t%s\x00", s.Mode, s.ID, s.Path)
	}
	if err := sh(ctx, removeChangesScript, nil, strings.NewReader(input.String()), io.Discard); err != nil {
		return fmt.Errorf("removing earlier changes from sandbox %s: %w", r.name, err)
	}
	st.Sent = nil
	return r.save(*st)
}

// sendChanges sends the user's uncommitted changes to a clone at the same commit.
func (r *Repo) sendChanges(ctx context.Context, st *state, sh Shell, res *Result) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sending uncommitted changes to sandbox %s: %w", r.name, err)
		}
	}()
	objects, err := os.MkdirTemp(inGit(r.stateDir, r.name, ""), "changes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(objects) }()
	if err := r.git.Owner.Chown(objects); err != nil {
		return err
	}
	tip := st.Synced
	if tip == "" {
		return errors.New("the branch has no commits")
	}
	side, changes, err := r.sideCommit(ctx, objects, tip, res)
	if err != nil || len(changes) == 0 {
		return err
	}
	st.Sent = nil
	tracked := map[string]bool{}
	for _, c := range changes {
		s := sent{Path: []byte(c.Path), Mode: c.NewMode, ID: c.NewID}
		if c.Deleted() {
			s.Mode, s.ID = "0", c.OldID
		}
		st.Sent = append(st.Sent, s)
		tracked[c.Path] = !c.Added()
		res.Sent = append(res.Sent, c.Path)
	}
	if err := r.save(*st); err != nil { // before the sandbox has any of them
		return err
	}
	from := *r
	from.git = r.withObjects(objects)
	if err := from.send(ctx, sh, sendChangesScript, []string{tip, side}, "", pack{revs: side + "\n^" + tip + "\n"}); err != nil {
		return err
	}
	return r.exclude(ctx, st, sh, slices.Sorted(maps.Keys(tracked)), tracked)
}

// withObjects adds an object directory, to which git writes.
func (r *Repo) withObjects(dir string) hostgit.Git {
	return r.git.With("GIT_OBJECT_DIRECTORY="+dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(r.git.CommonDir, "objects"))
}

// sideCommit commits the working tree on top of a commit, with its objects in a directory
// that the repository does not read. Repositories in it are left out: those are submodules,
// which stay at the commit that the sandbox has, and others.
func (r *Repo) sideCommit(ctx context.Context, objects, tip string, res *Result) (side string, changes []hostgit.Change, err error) {
	index := filepath.Join(objects, "index")
	if err := r.git.Owner.CopyFile(filepath.Join(r.git.GitDir, "index"), index); err != nil && !os.IsNotExist(err) {
		return "", nil, err
	}
	own := *r
	own.git = r.withObjects(objects)
	g := own.git.With("GIT_INDEX_FILE="+index,
		"GIT_AUTHOR_NAME=docker-ralph", "GIT_AUTHOR_EMAIL=docker-ralph@localhost", "GIT_COMMITTER_NAME=docker-ralph", "GIT_COMMITTER_EMAIL=docker-ralph@localhost")
	g.Timeout = checkoutTimeout
	out, err := g.InWorktree(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return "", nil, err
	}
	add := []string{"add", "--all", "--", "."}
	for path := range strings.SplitSeq(string(out), "\x00") {
		if strings.HasSuffix(path, "/") {
			res.Unsent = append(res.Unsent, path)
			add = append(add, ":(exclude,literal)"+path)
		}
	}
	if _, err := g.With("GIT_LITERAL_PATHSPECS=0").InWorktree(ctx, add...); err != nil {
		return "", nil, err
	}
	if err := r.resetSubmodules(ctx, g, tip); err != nil {
		return "", nil, err
	}
	tree, err := g.Line(ctx, "write-tree")
	if err != nil {
		return "", nil, err
	}
	if side, err = g.Line(ctx, "commit-tree", "--no-gpg-sign", "-p", tip, "-m", "uncommitted changes", tree); err != nil {
		return "", nil, err
	}
	changes, err = g.Changes(ctx, tip, side)
	return side, changes, err
}

// resetSubmodules resets the submodules in an index to those of a commit.
func (r *Repo) resetSubmodules(ctx context.Context, g hostgit.Git, tip string) error {
	tree, err := g.Line(ctx, "write-tree")
	if err != nil {
		return err
	}
	changes, err := g.Changes(ctx, tip, tree)
	if err != nil {
		return err
	}
	var input strings.Builder
	for _, c := range changes {
		switch hostgit.Submodule {
		case c.OldMode:
			_, _ = fmt.Fprintf(&input, "%s %s\t%s\x00", c.OldMode, c.OldID, c.Path)
		case c.NewMode:
			_, _ = fmt.Fprintf(&input, "0 %s\t%s\x00", c.NewID, c.Path)
		}
	}
	_, err = g.Output(ctx, strings.NewReader(input.String()), "update-index", "-z", "--add", "--replace", "--index-info")
	return err
}
