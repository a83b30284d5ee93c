package hostgit

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// GitDirParts are what makes a directory a git directory: git reads the configuration of one,
// whatever its name is, if it is called there. Some file systems ignore case.
var GitDirParts = []string{"head", "objects", "refs"}

// Obstacle is something of the user that a checkout would overwrite, remove or write into.
type Obstacle struct {
	Path       string
	Repository bool // a repository or worktree, or a git directory
}

// Compare returns the changes whose files have their new content already, and what is in the way
// of the others and not tracked; nil for nothing. [git read-tree] refuses to overwrite what is
// tracked and changed, but removes ignored files, and writes into other repositories. A file that
// git does not track is in the way with the same content, too, unless applied has it: once it is
// tracked, the next commits could change or remove it.
func (g Git) Compare(index []Entry, changes []Change, format int, applied func(Change) bool) (same []Change, obstacle *Obstacle) {
	c := comparison{g: g, removed: map[string]string{}, renamed: map[string]string{}, repositories: map[string]bool{}}
	c.tracked, c.dirs = byPath(index)
	for _, ch := range changes {
		if ch.Deleted() {
			c.removed[ch.Path] = ch.OldID
			c.renamed[strings.ToLower(ch.Path)] = ch.Path
		}
	}
	for _, ch := range changes {
		if ch.Deleted() {
			continue
		}
		obstacle, free := c.onTheWay(ch.Path)
		if obstacle != nil {
			return nil, obstacle
		}
		e, is := c.tracked[ch.Path]
		switch {
		case free, is && e.OID != ch.OldID, e.Tag == 'S':
			// read-tree decides
		case (is || applied(ch)) && g.has(ch, format):
			if !is || e.OID != ch.NewID || e.Mode != ch.NewMode {
				same = append(same, ch)
			}
		default:
			if obstacle := c.at(ch.Path); obstacle != nil {
				return nil, obstacle
			}
		}
	}
	return same, nil
}

// Removed returns the changes that remove tracked files which are not there any more.
func (g Git) Removed(index []Entry, changes []Change) (removed []Change) {
	tracked, _ := byPath(index)
	for _, ch := range changes {
		_, err := os.Lstat(filepath.Join(g.Root, filepath.FromSlash(ch.Path)))
		if ch.Deleted() && tracked[ch.Path].OID == ch.OldID && err != nil {
			removed = append(removed, ch)
		}
	}
	return removed
}

// has reports whether a file has the new content and mode of a change.
func (g Git) has(c Change, format int) bool {
	return g.BlobID(c.Path, format) == c.NewID && g.hasMode(c.Path, c.NewMode)
}

// hasMode reports whether a file has a mode, as far as the file system tells.
func (g Git) hasMode(name, mode string) bool {
	info, err := os.Lstat(filepath.Join(g.Root, filepath.FromSlash(name)))
	if err != nil || (info.Mode()&os.ModeSymlink != 0) != (mode == link) {
		return false
	}
	return mode == link || g.Known.Last("core", "filemode") == "false" || (info.Mode()&0o100 != 0) == (mode == executable)
}

// byPath returns the entries of an index, and the directories that have tracked files.
func byPath(index []Entry) (tracked map[string]Entry, dirs map[string]bool) {
	tracked, dirs = make(map[string]Entry, len(index)), map[string]bool{}
	for _, e := range index {
		tracked[e.Path] = e
		for dir := path.Dir(e.Path); e.Mode != Submodule && dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return tracked, dirs
}

// comparison is what [Git.Compare] knows.
type comparison struct {
	g            Git
	tracked      map[string]Entry
	dirs         map[string]bool   // with tracked files
	removed      map[string]string // by the changes, and what they were
	renamed      map[string]string // those by their name in lower case
	repositories map[string]bool   // directories that were looked at
}

// isRemoved reports whether the changes remove a tracked file. One that the user has untracked is the user's.
func (c comparison) isRemoved(name string) bool {
	was, removed := c.removed[name]
	return removed && c.tracked[name].OID == was
}

func (c comparison) lstat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(c.g.Root, filepath.FromSlash(name)))
}

// onTheWay returns what is in the way of a path at that of one of its directories. free says
// that there is no such directory yet, or a file that the changes remove.
func (c comparison) onTheWay(name string) (_ *Obstacle, free bool) {
	for i, char := range name {
		if char != '/' {
			continue
		}
		at := name[:i]
		info, err := c.lstat(at)
		switch {
		case err != nil:
			return nil, true
		case !info.IsDir() && (c.isRemoved(at) || c.isRenamed(at, info)):
			return nil, true // unless it has changed, see read-tree
		case !info.IsDir():
			return &Obstacle{Path: at}, false
		case !c.dirs[at] && c.isRepository(at):
			return &Obstacle{Path: at, Repository: true}, false
		}
	}
	return nil, false
}

// at returns what is in the way at a path itself.
func (c comparison) at(name string) *Obstacle {
	info, err := c.lstat(name)
	if err != nil {
		return nil
	}
	if info.IsDir() {
		return c.below(name)
	}
	if _, is := c.tracked[name]; is || c.isRenamed(name, info) {
		return nil
	}
	return &Obstacle{Path: name}
}

// below returns what a directory has that the changes do not remove.
func (c comparison) below(dir string) (obstacle *Obstacle) {
	_ = filepath.WalkDir(filepath.Join(c.g.Root, filepath.FromSlash(dir)), func(file string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(c.g.Root, file)
		name = filepath.ToSlash(name)
		switch {
		case err != nil || relErr != nil:
			obstacle = &Obstacle{Path: dir}
		case e.IsDir() && !c.dirs[name] && c.isRepository(name):
			obstacle = &Obstacle{Path: name, Repository: true}
		case !e.IsDir() && !c.isRemoved(name):
			obstacle = &Obstacle{Path: name}
		default:
			return nil
		}
		return fs.SkipAll
	})
	return obstacle
}

// isRenamed reports whether a file is one that the changes remove under a name in another case.
func (c comparison) isRenamed(name string, info fs.FileInfo) bool {
	old := c.renamed[strings.ToLower(name)]
	if old == "" || !c.isRemoved(old) || c.g.Known.Last("core", "ignorecase") != "true" {
		return false
	}
	was, err := c.lstat(old)
	return err == nil && os.SameFile(was, info)
}

// isRepository reports whether a directory is a repository or worktree, or a git directory.
func (c comparison) isRepository(dir string) bool {
	known, is := c.repositories[dir]
	if is {
		return known
	}
	entries, _ := os.ReadDir(filepath.Join(c.g.Root, filepath.FromSlash(dir)))
	parts := map[string]bool{}
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		known = known || name == ".git"
		if slices.Contains(GitDirParts, name) {
			parts[name] = true
		}
	}
	known = known || len(parts) == len(GitDirParts)
	c.repositories[dir] = known
	return known
}

// IndexInfo returns lines for update-index that bring the index to changes.
func IndexInfo(changes []Change) string {
	var b strings.Builder
	for _, ch := range changes {
		_, _ = fmt.Fprintf(&b, "%s %s\t%s\x00", ch.NewMode, ch.NewID, ch.Path)
	}
	return b.String()
}

// Reversed returns the changes that undo others.
func Reversed(changes []Change) []Change {
	undo := make([]Change, 0, len(changes))
	for _, ch := range changes {
		undo = append(undo, Change{Path: ch.Path, OldMode: ch.NewMode, NewMode: ch.OldMode, OldID: ch.NewID, NewID: ch.OldID})
	}
	return undo
}
