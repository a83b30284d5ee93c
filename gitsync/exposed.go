package gitsync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// checkConfig refuses a repository whose git configuration is in files of the
// working tree: an agent that writes there could name programs that the user's git
// runs, and ours too. A file that is included counts before it exists.
func (r *Repo) checkConfig(ctx context.Context) error {
	out, err := r.git.with("GIT_CONFIG_NOSYSTEM=0").run(ctx, nil, "config", "--null", "--show-origin", "--list", "--includes")
	if err != nil {
		return fmt.Errorf("reading git's configuration: %w", err)
	}
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		origin, isFile := strings.CutPrefix(fields[i], "file:")
		if !isFile {
			continue
		}
		files := []string{r.absolute(r.git.Dir, origin)}
		key, value, _ := strings.Cut(fields[i+1], "\n")
		if key == "include.path" || strings.HasPrefix(key, "includeif.") && strings.HasSuffix(key, ".path") {
			files = append(files, r.absolute(filepath.Dir(files[0]), value))
		}
		for _, file := range files {
			if r.exposed(file) {
				return hint.Wrap(fmt.Errorf("git reads %s of this worktree as configuration, so an agent could have it run programs as you", file),
					`include a copy outside of the worktree, %s`, useDirect)
			}
		}
	}
	return nil
}

// absolute returns the path that git takes a value of its configuration for.
func (r *Repo) absolute(dir, path string) string {
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

// exposed says that a path, or what it leads to, is in the working tree and not in
// the git directory.
func (r *Repo) exposed(path string) bool {
	in := func(dir, path string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	}
	for _, p := range []string{path, resolved(path)} {
		if in(r.root, p) && !in(r.gitDir, p) && !in(r.commonDir, p) {
			return true
		}
	}
	return false
}

// resolved follows the links of a path, or of its folder if the path is not there.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Hooks are programs in the working tree that the user's git runs, as with husky:
// the hashes of their contents by path. git status runs one of them, so what an
// agent changes there has to be reported.
type Hooks map[string][sha256.Size]byte

// Hooks reads them. Without a folder of hooks in the working tree there are none.
func (r *Repo) Hooks(ctx context.Context) (Hooks, error) {
	out, err := r.git.with("GIT_CONFIG_NOSYSTEM=0").run(ctx, nil, "config", "--null", "--includes", "--get-all", "core.hooksPath")
	if err != nil {
		return nil, fmt.Errorf("reading git's configuration: %w", err)
	}
	values := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	values = values[:len(values)-1] // the last one is ours
	if len(values) == 0 {
		return nil, nil
	}
	dir := r.absolute(r.root, values[len(values)-1])
	if !r.exposed(dir) {
		return nil, nil
	}
	found := Hooks{}
	dirs := []string{dir}
	if filepath.Base(dir) == "_" { // husky's, whose programs run those beside it
		dirs = append(dirs, filepath.Dir(dir))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("reading the hooks: %w", err)
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !e.IsDir() {
				found[path] = contents(path)
			}
		}
	}
	return found, nil
}

// contents hashes the beginning of a file. What is no plain file, such as a pipe,
// is not opened.
func contents(path string) (sum [sha256.Size]byte) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return sum
	}
	f, err := os.Open(path)
	if err != nil {
		return sum
	}
	defer func() { _ = f.Close() }() // it was read only
	h := sha256.New()
	_, _ = fmt.Fprintln(h, info.Mode(), info.Size())
	_, _ = io.Copy(h, io.LimitReader(f, small))
	return [sha256.Size]byte(h.Sum(nil))
}

// Changed returns the paths of the hooks that are new or differ since before.
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
