package hostgit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
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
// not in the git directory, to which .git may be a link: no commit has a file there.
func (g Git) exposed(path string) bool {
	for _, p := range []string{path, resolved(path)} {
		if within(g.Root, p) && !within(filepath.Join(g.Root, ".git"), p) && !within(g.GitDir, p) && !within(g.CommonDir, p) {
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

// Hooks returns the hashes of the programs in the working tree that the user's git runs, by path: those
// of husky, and files that a hook elsewhere is a link to. Even git status runs hooks.
func (g Git) Hooks(ctx context.Context) (map[string]string, error) {
	c, err := g.Config(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(g.CommonDir, "hooks")
	if path := c.Last("core", "hookspath"); path != "" {
		dir = g.absolute(g.Root, path)
	}
	if !g.exposed(dir) {
		hashes, err := HashFiles(dir)
		maps.DeleteFunc(hashes, func(path, _ string) bool { return !g.exposed(path) })
		return hashes, err
	}
	dirs := []string{dir}
	if filepath.Base(dir) == "_" { // husky's wrappers run the programs in the parent directory
		dirs = append(dirs, filepath.Dir(dir))
	}
	return HashFiles(dirs...)
}

// commitHooks are the hooks that git runs for a commit, see githooks(5).
var commitHooks = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"}

// CommitHooks returns the names of the hooks that the user's git runs for a commit.
func (g Git) CommitHooks(ctx context.Context) ([]string, error) {
	c, err := g.Config(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(g.CommonDir, "hooks")
	if path := c.Last("core", "hookspath"); path != "" {
		dir = g.absolute(g.Root, path)
	}
	var names []string
	for _, name := range commitHooks {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

// HashFiles returns the hashes of the files in directories, by path.
func HashFiles(dirs ...string) (map[string]string, error) {
	hashes := map[string]string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return hashes, fmt.Errorf("reading hooks: %w", err)
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !e.IsDir() {
				hashes[path] = HashFile(path)
			}
		}
	}
	return hashes, nil
}

// maxHook is how much of a hook is hashed.
const maxHook = 4 << 20

// HashFile returns the hash of the content and mode of a regular file. Pipes and devices are not
// opened, and have none.
func HashFile(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, _ = fmt.Fprintln(h, info.Mode(), info.Size())
	_, _ = io.Copy(h, io.LimitReader(f, maxHook))
	return hex.EncodeToString(h.Sum(nil))
}
