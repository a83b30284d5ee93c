// Package tempfiles removes what a run of the agent has left in directories of temporary
// files.
package tempfiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Snapshot has the paths in some directories at one time.
type Snapshot struct {
	dirs  []string
	keep  []string
	paths map[string]struct{}
}

// Take lists the paths in directories. Those in keep, and other file systems that are
// mounted below the directories, are not looked into.
func Take(dirs, keep []string) Snapshot {
	s := Snapshot{dirs, keep, map[string]struct{}{}}
	s.walk(func(path string, _ fs.DirEntry, _ *syscall.Stat_t) error {
		s.paths[path] = struct{}{}
		return nil
	})
	return s
}

// RemoveNew removes the user's files that the snapshot does not have.
func (s Snapshot) RemoveNew() error {
	var failed []error
	s.walk(func(path string, entry fs.DirEntry, stat *syscall.Stat_t) error {
		if _, had := s.paths[path]; had {
			return nil
		}
		if int(stat.Uid) == os.Geteuid() {
			failed = append(failed, remove(path))
		}
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return errors.Join(failed...)
}

// walk calls visit for the paths below the directories. Unreadable directories are skipped.
func (s Snapshot) walk(visit func(path string, entry fs.DirEntry, stat *syscall.Stat_t) error) {
	for _, dir := range s.dirs {
		root, err := os.Stat(dir)
		if err != nil {
			continue
		}
		device := root.Sys().(*syscall.Stat_t).Dev
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return nil
			}
			stat := statOf(entry)
			switch {
			case stat == nil:
				return nil
			case stat.Dev == device && !slices.Contains(s.keep, path):
				return visit(path, entry, stat)
			case entry.IsDir():
				return fs.SkipDir
			}
			return nil
		})
	}
}

// remove removes a path with all below it, including directories that are read-only, such
// as those of Go's modules.
func remove(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

func statOf(entry fs.DirEntry) *syscall.Stat_t {
	info, err := entry.Info()
	if err != nil {
		return nil // removed since
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return stat
}
