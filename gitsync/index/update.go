package index

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// Update is what has to change in an index.
type Update struct {
	lines []string            // for update-index --index-info
	flags map[string][]string // paths by the option of update-index
}

// Apply changes the copy of the index and refreshes its stat data. Files that
// need a filter for that are left to the user's own git.
func (u Update) Apply(ctx context.Context, git hostgit.Git, edit Edit) error {
	if len(u.lines) == 0 {
		return nil
	}
	g := edit.Git(git)
	_, err := g.Output(ctx, strings.NewReader(strings.Join(u.lines, "")), "update-index", "-z", "--index-info")
	for flag, paths := range u.flags {
		if err == nil {
			_, err = g.Output(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", flag, "-z", "--stdin")
		}
	}
	if err == nil {
		err = refresh(ctx, git.With("GIT_INDEX_FILE="+edit.refreshed), edit)
	}
	if err != nil {
		return fmt.Errorf("updating the index: %w", err)
	}
	return nil
}

// refresh updates the stat data in a further copy, which a git that blocks in the
// working tree may keep locked. It may fail: the user's own git refreshes too.
func refresh(ctx context.Context, g hostgit.Git, edit Edit) error {
	if err := edit.owner.CopyFile(edit.temp, edit.refreshed); err != nil {
		return err
	}
	if _, err := g.InWorktree(ctx, "update-index", "-q", "--refresh"); err != nil && !gitrepo.SaysNo(err) {
		return ctx.Err()
	}
	return os.Rename(edit.refreshed, edit.temp)
}

// Merge applies changes to an index in which staged changes stay. A path that
// would be a file and a directory is returned as conflicting.
func Merge(index []hostgit.Entry, changes []hostgit.Change) (update Update, conflicting string) {
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
			return Update{}, conflicting
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
