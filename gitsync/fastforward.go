package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// indexLockTimeout is how long another git may hold the lock of the user's index.
const indexLockTimeout = 3 * time.Second

// fastForward moves the user's branch and index from one commit to another. Files do not
// change if they are the sandbox's as well as the user's; a clone's are checked out. Staged
// changes stay staged.
func (r *Repo) fastForward(ctx context.Context, st *state, from, to string) (*Conflict, error) {
	changes, err := r.git.Changes(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if !r.clone && r.filesOutdated(changes, len(to)) {
		return &Conflict{Kind: filesElsewhere}, nil
	}
	st.Pending = &pending{From: from, To: to, Token: newToken()}
	if err := r.save(*st); err != nil {
		return nil, err
	}
	update := r.mergeChanges(changes)
	if r.clone {
		update = r.checkoutChanges(changes, from, to)
	}
	conflict, err := r.editIndex(ctx, st.Pending.Token, update, func() error { return r.moveBranch(ctx, st.Branch, from, to) })
	if err != nil {
		return nil, err
	}
	if conflict == nil {
		st.setSynced(to)
	}
	st.Pending = nil
	return conflict, r.save(*st)
}

// moveBranch updates the user's branch and the base in one transaction, if the branch
// has not moved.
func (r *Repo) moveBranch(ctx context.Context, branch, from, to string) error {
	if from == "" {
		from = strings.Repeat("0", len(to))
	}
	input := fmt.Sprintf("update refs/heads/%s %s %s\nupdate %s %s\n", branch, to, from, r.base(), to)
	_, err := r.git.Output(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: fast-forward from the sandbox "+r.name, "--stdin")
	if err != nil {
		return fmt.Errorf("fast-forwarding %s: %w", branch, err)
	}
	return nil
}

// indexChange applies changes to a copy of the user's index. If the branch cannot be moved
// then, undo is called; it may be nil.
type indexChange func(ctx context.Context, edit indexEdit) (conflict *Conflict, undo func() error, err error)

// mergeChanges changes the index only.
func (r *Repo) mergeChanges(changes []hostgit.Change) indexChange {
	return func(ctx context.Context, edit indexEdit) (*Conflict, func() error, error) {
		index, err := r.git.Index(ctx)
		if err != nil {
			return nil, nil, err
		}
		update, conflicting := mergeIndex(index, changes)
		if conflicting != "" {
			return &Conflict{Kind: stagedClash, Detail: conflicting}, nil, nil
		}
		return nil, nil, r.updateIndex(ctx, edit, update)
	}
}

// editIndex applies changes to the user's index, and calls move while no other git can
// change the index.
func (r *Repo) editIndex(ctx context.Context, token string, update indexChange, move func() error) (conflict *Conflict, err error) {
	edit := r.indexEdit(token)
	defer edit.end()
	for deadline := time.Now().Add(indexLockTimeout); ; time.Sleep(20 * time.Millisecond) {
		if err = edit.begin(); !errors.Is(err, fs.ErrExist) {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return &Conflict{Kind: indexLocked, Detail: edit.lock}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("updating the index: %w", err)
	}
	conflict, undo, err := update(ctx, edit)
	if err != nil || conflict != nil {
		return conflict, err
	}
	if err := move(); err != nil {
		if undo != nil {
			err = errors.Join(err, undo())
		}
		return nil, err
	}
	if err := edit.commit(); err != nil {
		return nil, fmt.Errorf("updating the index: %w", err)
	}
	return nil, nil
}

// indexUpdate is what has to change in an index.
type indexUpdate struct {
	lines []string            // for update-index --index-info
	flags map[string][]string // paths by the option of update-index
}

// updateIndex changes the copy of the index and refreshes its stat data. Files that
// need a filter for that are left to the user's own git.
func (r *Repo) updateIndex(ctx context.Context, edit indexEdit, update indexUpdate) error {
	if len(update.lines) == 0 {
		return nil
	}
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	unfiltered := r.git.WithoutFilters(config)
	g := unfiltered.With("GIT_INDEX_FILE=" + edit.temp)
	_, err = g.Output(ctx, strings.NewReader(strings.Join(update.lines, "")), "update-index", "-z", "--index-info")
	for flag, paths := range update.flags {
		if err == nil {
			_, err = g.Output(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", flag, "-z", "--stdin")
		}
	}
	if err == nil {
		err = refresh(ctx, unfiltered.With("GIT_INDEX_FILE="+edit.refreshed), edit)
	}
	if err != nil {
		return fmt.Errorf("updating the index: %w", err)
	}
	return nil
}

// refresh updates the stat data in a further copy, which a git that blocks in the
// working tree may keep locked. It may fail: the user's own git refreshes too.
func refresh(ctx context.Context, g hostgit.Git, edit indexEdit) error {
	if err := edit.owner.CopyFile(edit.temp, edit.refreshed); err != nil {
		return err
	}
	if _, err := g.InWorktree(ctx, "update-index", "-q", "--refresh"); err != nil && !gitrepo.SaysNo(err) {
		return ctx.Err()
	}
	return os.Rename(edit.refreshed, edit.temp)
}

// mergeIndex applies changes to an index in which staged changes stay. A path that
// would be a file and a directory is returned as conflicting.
func mergeIndex(index []hostgit.Entry, changes []hostgit.Change) (update indexUpdate, conflicting string) {
	byPath := make(map[string]hostgit.Entry, len(index))
	for _, e := range index {
		byPath[e.Path] = e
	}
	update.flags = map[string][]string{}
	deleted := map[string]bool{}
	for _, c := range changes {
		if c.Deleted() && byPath[c.Path].OID == c.OldID {
			deleted[c.Path] = true
			update.lines = append(update.lines, fmt.Sprintf("0 %s\t%s\x00", c.OldID, c.Path))
		}
	}
	for _, c := range changes {
		e, is := byPath[c.Path]
		unstaged := is && e.OID == c.OldID && e.Mode == c.OldMode || !is && c.Added()
		if c.Deleted() || !unstaged {
			continue
		}
		if conflicting := obstacle(index, byPath, deleted, c.Path); conflicting != "" {
			return indexUpdate{}, conflicting
		}
		update.lines = append(update.lines, fmt.Sprintf("%s %s\t%s\x00", c.NewMode, c.NewID, c.Path))
		switch e.Tag {
		case 'S':
			update.flags["--skip-worktree"] = append(update.flags["--skip-worktree"], c.Path)
		case 'h':
			update.flags["--assume-unchanged"] = append(update.flags["--assume-unchanged"], c.Path)
		}
	}
	return update, ""
}

// obstacle returns a remaining entry of the index that is above or below a path.
func obstacle(index []hostgit.Entry, byPath map[string]hostgit.Entry, deleted map[string]bool, path string) string {
	for i, c := range path {
		if c != '/' {
			continue
		}
		if _, is := byPath[path[:i]]; is && !deleted[path[:i]] {
			return path[:i]
		}
	}
	below := path + "/"
	for i := sort.Search(len(index), func(i int) bool { return index[i].Path >= below }); i < len(index) && strings.HasPrefix(index[i].Path, below); i++ {
		if !deleted[index[i].Path] {
			return index[i].Path
		}
	}
	return ""
}

// completePending completes the fast-forward of a killed command: if the user's branch
// has moved, the index follows; otherwise nothing has happened.
func (r *Repo) completePending(ctx context.Context, st *state) error {
	p := st.Pending
	if p == nil {
		return nil
	}
	r.indexEdit(p.Token).end()
	tip, err := r.git.Resolve(ctx, "refs/heads/"+st.Branch)
	if err != nil {
		return err
	}
	branch, err := r.git.Branch(ctx)
	if err != nil {
		return err
	}
	if tip == p.To && branch == st.Branch {
		changes, err := r.git.Changes(ctx, p.From, p.To)
		if err != nil {
			return err
		}
		conflict, err := r.editIndex(ctx, p.Token, r.mergeChanges(changes), func() error { return r.setBase(ctx, p.To) })
		if err != nil {
			return err
		}
		if conflict != nil && conflict.Kind == indexLocked {
			return asError(r.explain(ctx, conflict, st.Branch, p.From, p.To))
		}
		st.setSynced(p.To)
	}
	st.Pending = nil
	return r.save(*st)
}

// filesOutdated reports whether all files of the changes are as they were before: the
// working tree has been somewhere else since they were committed.
func (r *Repo) filesOutdated(changes []hostgit.Change, format int) bool {
	for _, c := range changes {
		switch id := r.git.BlobID(c.Path, format); {
		case c.Deleted() && id == "", id != "" && id == c.NewID:
			return false
		case c.Added() && id == "", id == c.OldID:
		default:
			return false // it was changed since, or filtered
		}
	}
	return len(changes) > 0
}
