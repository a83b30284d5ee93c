// Package agentconfig copies the user's settings of an agent for a sandbox, without
// secrets. The user's directories are only read.
package agentconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Limits of what is copied.
const (
	maxFile  = 1 << 20  // bytes
	maxTotal = 32 << 20 // bytes
	maxFiles = 5000
	maxDepth = 16
)

// Files are the settings of one agent.
type Files struct {
	files []file
	total int
	// Missing are the directories that do not exist.
	Missing []string
	// Notes say why files are not copied, or which secrets were removed from them. They
	// contain no secrets.
	Notes []string
}

type file struct {
	name    string // below the home directory, with slashes
	content []byte
	mode    fs.FileMode
}

// Collect reads the settings of an agent from its directories, which variables of the
// environment can name. Unreadable files are an error.
func Collect(agent, home string, lookup func(string) (string, bool)) (*Files, error) {
	found := &Files{}
	dirs := map[string]string{}
	for _, f := range folders(agent) {
		dir := f.on(home, lookup)
		if dir == "" {
			continue
		}
		dirs[dir] = f.path
		if err := found.add(agent, f, dir); err != nil {
			return nil, hint.Wrap(fmt.Errorf("reading your settings of %s: %w", agent, err), "make them readable, or do not copy them with --no-host-config")
		}
	}
	if err := found.adaptHooks(home, dirs); err != nil {
		return nil, fmt.Errorf("adapting your hooks of %s: %w", agent, err)
	}
	found.noteDenials()
	return found, nil
}

// Empty reports whether there are no files.
func (f *Files) Empty() bool { return len(f.files) == 0 }

// Digest identifies the content of the files and the notes.
func (f *Files) Digest() string {
	h := sha256.New()
	for _, one := range f.files {
		_, _ = fmt.Fprintf(h, "%q %v %d\n%s", one.name, one.mode, len(one.content), one.content)
	}
	_, _ = fmt.Fprintf(h, "%q", f.Notes)
	return hex.EncodeToString(h.Sum(nil))
}

func (f *Files) add(agent string, of folder, dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		f.Missing = append(f.Missing, dir)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	r := reader{Files: f, agent: agent, root: root, dir: dir, target: of.path}
	for _, name := range of.names {
		if err := r.copy(name, 0); err != nil {
			return err
		}
	}
	return nil
}

// reader reads one directory. Its root cannot be left by links.
type reader struct {
	*Files
	agent, dir, target string
	root               *os.Root
}

func (r *reader) addNote(name, why string) {
	r.Notes = append(r.Notes, fmt.Sprintf("%s %s", path.Join(r.dir, name), why))
}

// copy copies a file, or all files of a directory.
func (r *reader) copy(name string, depth int) error {
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if secretFile(path.Base(name)) {
		return nil
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = r.root.Stat(name); err != nil {
			r.addNote(name, "is not copied: it is a dangling symbolic link, or points out of the directory")
			return nil //nolint:nilerr // it is reported
		}
	}
	switch {
	case info.IsDir() && depth >= maxDepth:
		r.addNote(name, "is not copied: too deeply nested")
		return nil
	case info.IsDir():
		return r.copyDir(name, depth)
	case !info.Mode().IsRegular():
		r.addNote(name, "is not copied: not a regular file")
		return nil
	case info.Size() > maxFile:
		r.addNote(name, fmt.Sprintf("is not copied: larger than %d MiB", maxFile>>20))
		return nil
	}
	return r.copyFile(name, info.Mode())
}

func (r *reader) copyDir(name string, depth int) error {
	dir, err := r.root.Open(name)
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return bytes.Compare([]byte(a.Name()), []byte(b.Name())) })
	for _, entry := range entries {
		if err := r.copy(path.Join(name, entry.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) copyFile(name string, mode fs.FileMode) error {
	from, err := r.root.Open(name)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	content, what, err := clean(r.agent, name, content)
	if err != nil {
		r.addNote(name, "is not copied: "+err.Error())
		return nil
	}
	if what != "" {
		r.addNote(name, what)
	}
	if r.total += len(content); r.total > maxTotal || len(r.files) == maxFiles {
		return fmt.Errorf("%s holds more than %d MiB or %d files", r.dir, maxTotal>>20, maxFiles)
	}
	perm := fs.FileMode(0o600)
	if mode&0o111 != 0 {
		perm = 0o700
	}
	r.files = append(r.files, file{path.Join(r.target, name), content, perm})
	return nil
}
