package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// gitLockWait is how long a lock may exist after a run: the host's git holds one for
// milliseconds.
const gitLockWait = time.Second

// removeLeftovers removes the locks that killed processes have left in a private git directory, and grants the permissions
// that an agent has removed. Named pipes, on which git would wait, become invalid files: the host repairs the git directory
// then.
func (b *Branch) removeLeftovers() error {
	dir, err := filepath.EvalSymlinks(filepath.Join(b.top, ".git"))
	if err != nil {
		return fmt.Errorf("finding the git directory: %w", err)
	}
	for end := time.Now().Add(gitLockWait); ; <-time.After(gitLockWait / 20) {
		locks, pipes := leftovers(dir)
		for _, path := range pipes {
			if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("named pipe\n"), 0o600)); err != nil {
				return fmt.Errorf("removing a named pipe in the git directory: %w", err)
			}
		}
		switch {
		case len(pipes) > 0:
			return fmt.Errorf("git directory has a named pipe: %s", strings.TrimPrefix(pipes[0], dir+"/"))
		case len(locks) == 0:
			return nil
		case time.Now().Before(end):
			continue
		case b.others() != "":
			return fmt.Errorf("git repository is locked by a stale %s", strings.TrimPrefix(locks[0], dir+"/"))
		}
		for _, path := range locks {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing a stale lock: %w", err)
			}
		}
		return nil
	}
}

// leftovers returns the locks in a git directory, and the named pipes. Loose objects have neither.
func leftovers(dir string) (locks, pipes []string) {
	objects := filepath.Join(dir, "objects")
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil { // git fails there as well
			return nil //nolint:nilerr // and reports it
		}
		inObjects := strings.HasPrefix(path, objects)
		grant(path, e, inObjects)
		switch {
		case inObjects && e.IsDir() && filepath.Dir(path) == objects && len(e.Name()) == 2:
			return fs.SkipDir
		case e.IsDir():
		case filepath.Ext(path) == ".lock":
			locks = append(locks, path)
		case e.Type()&fs.ModeNamedPipe != 0:
			pipes = append(pipes, path)
		}
		return nil
	})
	return locks, pipes
}

// grant grants the owner what git needs: objects are read-only.
func grant(path string, e fs.DirEntry, isObject bool) {
	info, err := e.Info()
	if err != nil {
		return
	}
	var needed fs.FileMode
	switch {
	case e.IsDir():
		needed = 0o700
	case e.Type().IsRegular() && isObject:
		needed = 0o400
	case e.Type().IsRegular():
		needed = 0o600
	}
	if info.Mode()&needed != needed {
		_ = os.Chmod(path, info.Mode().Perm()|needed) // else git fails
	}
}
