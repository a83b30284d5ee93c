package worktrees

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stateFolder is where ralph keeps backlog and logs of a work tree. git ignores
// it, so nothing else has them.
const stateFolder = ".ralph"

// asideFolder is the place, in the main work tree, for those of work trees that
// are removed.
const asideFolder = "removed"

// SetAside moves the backlog and the logs of the work tree of that name into the
// main work tree, and returns where they are now. It returns "" if there are
// none.
func (r *Repository) SetAside(name string, now time.Time) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	// The paths are the repository's: no link in them may lead elsewhere.
	root, err := os.OpenRoot(r.main)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	from := filepath.Join(Folder, name, stateFolder)
	info, err := root.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", nil
	}
	if err == nil {
		err = mkdirs(root, stateFolder, filepath.Join(stateFolder, asideFolder))
	}
	if err == nil {
		err = ignoreIn(root, filepath.Join(stateFolder, asideFolder))
	}
	to := filepath.Join(stateFolder, asideFolder, name+now.Format("-20060102-150405"))
	if err == nil {
		err = root.Rename(from, to)
	}
	if err != nil {
		return "", fmt.Errorf("moving %s to %s: %w", from, to, err)
	}
	return to, nil
}

func mkdirs(root *os.Root, folders ...string) error {
	for _, folder := range folders {
		if err := root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// ignoreIn has git ignore all in a folder below a root.
func ignoreIn(root *os.Root, folder string) error {
	inside, err := root.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }()
	return ignoreAll(inside)
}
