package worktrees

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stateFolder has the backlog and the logs of a worktree, which git ignores.
const stateFolder = ".ralph"

// asideFolder has those of removed worktrees, in the main worktree.
const asideFolder = "removed"

// SetAside moves the backlog and the logs of a worktree into the main worktree, and returns
// their new path; "" for none.
func (r *Repository) SetAside(name string, now time.Time) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	// No link of the repository is followed out of it.
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
	to := filepath.Join(stateFolder, asideFolder, name+now.Format("-20060102-150405.000"))
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

// ignoreIn makes git ignore all files in a directory below a root.
func ignoreIn(root *os.Root, folder string) error {
	inside, err := root.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }()
	return ignoreAll(inside)
}
