package hostgit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// ExposedConfig returns a file of the configuration that is in the working tree, where
// an agent could name programs for git to run; empty for none. A file that is
// included counts before it exists.
func (g Git) ExposedConfig(c gitrepo.Config) string {
	for _, s := range c {
		files := []string{s.File}
		if s.Name == "path" && (s.Section == "include" || s.Section == "includeif") {
			files = append(files, g.absolute(filepath.Dir(files[0]), s.Value))
		}
		for _, file := range files {
			if g.exposed(file) {
				return file
			}
		}
	}
	return ""
}

// absolute resolves a path of git's configuration.
func (g Git) absolute(dir, path string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// exposed reports whether a path, or the target of a link, is in the working tree and
// not in the git directory.
func (g Git) exposed(path string) bool {
	for _, p := range []string{path, resolved(path)} {
		if within(g.Root, p) && !within(g.GitDir, p) && !within(g.CommonDir, p) {
			return true
		}
	}
	return false
}

func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// resolved follows the links of a path, or of its directory if it does not exist.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Hooks are the programs in the working tree that the user's git runs (husky). Even git
// status runs hooks.
type Hooks struct {
	dirs   []string
	hashes map[string][sha256.Size]byte // of their contents, by path
}

// Hooks reads the hooks in the working tree.
func (g Git) Hooks(ctx context.Context) (Hooks, error) {
	c, err := g.Config(ctx)
	if err != nil {
		return Hooks{}, err
	}
	path := c.Last("core", "hookspath")
	if path == "" {
		return Hooks{}, nil
	}
	dir := g.absolute(g.Root, path)
	if !g.exposed(dir) {
		return Hooks{}, nil
	}
	dirs := []string{dir}
	if filepath.Base(dir) == "_" { // husky's wrappers run the programs in the parent directory
		dirs = append(dirs, filepath.Dir(dir))
	}
	return readHooks(dirs)
}

func readHooks(dirs []string) (Hooks, error) {
	h := Hooks{dirs: dirs, hashes: map[string][sha256.Size]byte{}}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return h, fmt.Errorf("reading hooks: %w", err)
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !e.IsDir() {
				h.hashes[path] = contentHash(path)
			}
		}
	}
	return h, nil
}

// maxHook is how much of a hook is hashed.
const maxHook = 4 << 20

// contentHash hashes a regular file; pipes and devices are not opened.
func contentHash(path string) (sum [sha256.Size]byte) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return sum
	}
	f, err := os.Open(path)
	if err != nil {
		return sum
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, _ = fmt.Fprintln(h, info.Mode(), info.Size())
	_, _ = io.Copy(h, io.LimitReader(f, maxHook))
	return [sha256.Size]byte(h.Sum(nil))
}

// Changed returns the paths of the hooks that are new, or that differ, by now.
func (h Hooks) Changed() ([]string, error) {
	now, err := readHooks(h.dirs)
	var changed []string
	for path, hash := range now.hashes {
		if was, there := h.hashes[path]; !there || was != hash {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed, err
}
