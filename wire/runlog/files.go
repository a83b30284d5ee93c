package runlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Files are the files of a loop.
type Files interface {
	// Append appends to a file, or creates it.
	Append(file string, p []byte) error
	// Replace replaces a file atomically.
	Replace(file string, content []byte) error
	// Size is the size of a file; 0 if there is none.
	Size(file string) int64
}

// dirName is the directory of logs in a worktree.
const dirName = ".ralph/logs"

// DirIn returns the directory of logs of a worktree, for ralph on a plain host.
func DirIn(top string) string { return filepath.Join(top, filepath.FromSlash(dirName)) }

// MakeDirIn creates the directory of logs of a worktree, which git ignores. It follows no links: a
// repository can have some.
func MakeDirIn(top string) (string, error) {
	at, err := os.OpenRoot(top)
	for part := range strings.SplitSeq(dirName, "/") {
		if err != nil {
			return "", fmt.Errorf("creating the directory of logs: %w", err)
		}
		if err = at.Mkdir(part, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
		}
		var next *os.Root
		if err == nil {
			next, err = OpenDir(at, part)
		}
		if err == nil && part == ".ralph" {
			err = hideFromGit(next)
		}
		_ = at.Close()
		at = next
	}
	if at != nil {
		_ = at.Close()
	}
	if err != nil {
		return "", fmt.Errorf("creating the directory of logs: %w", err)
	}
	return DirIn(top), nil
}

// hideFromGit creates a .gitignore unless there is one.
func hideFromGit(at *os.Root) error {
	err := createFile(at, ".gitignore", []byte("*\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// local are the files in a directory.
type local struct{ root *os.Root }

// Append appends all of p, or nothing: a partial line would corrupt the next.
func (f local) Append(file string, p []byte) error {
	to, err := f.root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o644) // it could be a pipe
	if err != nil {
		return err
	}
	info, err := to.Stat()
	if err == nil {
		if _, err = to.Write(p); err != nil {
			err = errors.Join(err, to.Truncate(info.Size()))
		}
	}
	return errors.Join(err, to.Close())
}

// Replace replaces a file atomically.
func (f local) Replace(file string, content []byte) error {
	temp := file + ".new"
	err := f.root.RemoveAll(temp)
	if err == nil {
		err = createFile(f.root, temp, content)
	}
	if err == nil {
		err = f.root.Rename(temp, file)
	}
	if err != nil {
		return errors.Join(err, f.root.RemoveAll(temp))
	}
	return nil
}

// Size is the size of a file.
func (f local) Size(file string) int64 {
	info, err := f.root.Lstat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Close closes the directory.
func (f local) Close() error { return f.root.Close() }

func createFile(at *os.Root, name string, content []byte) error {
	f, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// appender writes to a file.
type appender struct {
	files Files
	name  string
}

func (a appender) Write(p []byte) (int, error) {
	if err := a.files.Append(a.name, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (a appender) Close() error { return nil }
