package selftest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// checkOwner checks that all files below a directory belong to its owner, and
// describes the owner.
func checkOwner(root string) (string, error) {
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("reading the test repository: %w", err)
	}
	want := ownerOf(info)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of the database
		}
		if err != nil {
			return err
		}
		if got := ownerOf(found); got != want {
			return fmt.Errorf("%s belongs to %s instead of %s: files created in sandboxes would not be yours", path, got, want)
		}
		return nil
	})
	return "belongs to " + want, err
}

func ownerOf(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}
