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
)

// ExposedConfig returns a file of the configuration that is in the working tree, where
// an agent could name programs for git to run; empty for none. A file that is
// included counts before it exists.
func (g Git) ExposedConfig(c Config) string {
	for _, s := range c {
		files := []string{g.absolute(g.Dir, s.file)}
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

// Hooks are the programs in the working tree that the user's git runs (husky): hashes
// of their contents by path. Even git status runs hooks.
type Hooks map[string][sha256.Size]byte

// Hooks reads the hooks in the working tree.
func (g Git) Hooks(ctx context.Context) (Hooks, error) {
	c, err := g.Config(ctx)
	if err != nil {
		return nil, err
	}
	path := c.Last("core", "hookspath")
	if path == "" {
		return nil, nil
	}
	dir := g.absolute(g.Root, path)
	if !g.exposed(dir) {
		return nil, nil
	}
	found := Hooks{}
	dirs := []string{dir}
	if filepath.Base(dir) == "_" { // husky's wrappers run the programs in the parent directory
		dirs = append(dirs, filepath.Dir(dir))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("reading hooks: %w", err)
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !e.IsDir() {
				found[path] = contentHash(path)
			}
		}
	}
	return found, nil
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

// Changed returns the paths of the hooks that are new or differ.
func (h Hooks) Changed(before Hooks) []string {
	var changed []string
	for path, sum := range h {
		if was, there := before[path]; !there || was != sum {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed
}
