package hostgit

import (
	"errors"
	"io/fs"
	"os"
)

// CopyFile makes a copy for the owner, with the permissions of the original.
func (o Owner) CopyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
		return err
	}
	return o.Chown(to)
}

// MkdirLike makes a directory with the permissions of another one, unless it exists.
func (o Owner) MkdirLike(like, path string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.Chmod(path, info.Mode()); err != nil {
		return err
	}
	return o.Chown(path)
}
