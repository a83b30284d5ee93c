// Package agentconfig takes what a user has configured of an agent on the host,
// without secrets, to be put into a sandbox. It reads the user's folders and
// writes nothing.
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

// Bounds of what is taken along.
const (
	maxFile  = 1 << 20  // bytes
	maxTotal = 32 << 20 // bytes
	maxFiles = 5000
	maxDepth = 16
)

// Files is the configuration of one agent.
type Files struct {
	files []file
	total int
	// Missing are the folders that are not there.
	Missing []string
	// LeftOut says of each file that was left out, and of each that was changed,
	// why. Secrets themselves are not in it.
	LeftOut []string
}

type file struct {
	name    string // below the home directory, with slashes
	content []byte
	mode    fs.FileMode
}

// Collect reads the configuration of an agent from the home directory and from
// where variables of the environment lead. What is there but cannot be read is
// an error.
func Collect(agent, home string, lookup func(string) (string, bool)) (*Files, error) {
	found := &Files{}
	for _, f := range folders(agent) {
		dir := f.on(home, lookup)
		if dir == "" {
			continue
		}
		if err := found.add(agent, f, dir); err != nil {
			return nil, hint.Wrap(fmt.Errorf("reading your configuration of %s: %w", agent, err), "make it readable, or leave it outside with --no-host-config")
		}
	}
	return found, nil
}

// Empty reports whether there is nothing to put anywhere.
func (f *Files) Empty() bool { return len(f.files) == 0 }

// Digest names the configuration as it is.
func (f *Files) Digest() string {
	h := sha256.New()
	for _, one := range f.files {
		_, _ = fmt.Fprintf(h, "%q %v %d\n%s", one.name, one.mode, len(one.content), one.content)
	}
	_, _ = fmt.Fprintf(h, "%q", f.LeftOut)
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
		if err := r.take(name, 0); err != nil {
			return err
		}
	}
	return nil
}

// reader reads one folder. Nothing outside can be reached through its root.
type reader struct {
	*Files
	agent, dir, target string
	root               *os.Root
}

func (r *reader) leaveOut(name, why string) {
	r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s %s", path.Join(r.dir, name), why))
}

// take takes a file, or all files of a folder.
func (r *reader) take(name string, depth int) error {
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
			r.leaveOut(name, "is left out: it is a symbolic link that leads out of the folder, or nowhere")
			return nil //nolint:nilerr // where it leads is not ours
		}
	}
	switch {
	case info.IsDir() && depth >= maxDepth:
		r.leaveOut(name, "is left out: it is too deep")
		return nil
	case info.IsDir():
		return r.takeAll(name, depth)
	case !info.Mode().IsRegular():
		r.leaveOut(name, "is left out: it is no file")
		return nil
	case info.Size() > maxFile:
		r.leaveOut(name, fmt.Sprintf("is left out: it is larger than %d MiB", maxFile>>20))
		return nil
	}
	return r.takeFile(name, info.Mode())
}

func (r *reader) takeAll(name string, depth int) error {
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
		if err := r.take(path.Join(name, entry.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) takeFile(name string, mode fs.FileMode) error {
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
		r.leaveOut(name, "is left out: "+err.Error())
		return nil
	}
	if what != "" {
		r.leaveOut(name, what)
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
