package gitsync

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Including returns the repository of a clone that gets, once, the ignored files of the worktree that
// match patterns as in .gitignore: each of required has to match some.
func (r *Repo) Including(required, others []string) *Repo {
	with := *r
	with.required, with.include = required, slices.Concat(required, others)
	return &with
}

// includeScript writes files; its input is a tar archive.
const includeScript = `tar -x -f -`

// CheckIncluded returns an error for the first required pattern that matches no ignored file.
func (r *Repo) CheckIncluded(ctx context.Context) error {
	for _, pattern := range r.required {
		if strings.HasPrefix(pattern, "!") { // it leaves files out
			continue
		}
		paths, other, err := r.ignored(ctx, []string{pattern})
		switch {
		case err != nil:
			return err
		case len(paths) > 0:
			continue
		case len(other) > 0:
			return hint.Wrap(fmt.Errorf("%q, which matches %q, is not a regular file", other[0], pattern),
				"copy the file that a link leads to, or remove the pattern from workspace.include")
		}
		return hint.Wrap(fmt.Errorf("no ignored file in %s matches %q", r.git.Root, pattern),
			"create the file, or remove the pattern from workspace.include")
	}
	return nil
}

// ignored lists the ignored files of the worktree that match a pattern: regular ones, and others, such as links.
func (r *Repo) ignored(ctx context.Context, patterns []string) (files, other []string, err error) {
	list := func(excludes ...string) ([]string, error) {
		out, err := r.git.InWorktree(ctx, append([]string{"ls-files", "-z", "--others", "--ignored"}, excludes...)...)
		if err != nil {
			return nil, fmt.Errorf("listing ignored files in %s: %w", r.git.Root, err)
		}
		return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 }), nil
	}
	var excludes []string
	for _, p := range patterns {
		excludes = append(excludes, "--exclude="+p)
	}
	matching, err := list(excludes...)
	if err != nil || len(matching) == 0 {
		return nil, nil, err
	}
	ignored, err := list("--exclude-standard")
	slices.Sort(ignored)
	for _, path := range matching {
		_, is := slices.BinarySearch(ignored, path)
		ours := strings.HasPrefix(path, ".ralph/") // prompts are sent, the rest is of ralph without docker
		switch info, err := os.Lstat(filepath.Join(r.git.Root, filepath.FromSlash(path))); {
		case !is || ours || err != nil:
		case info.Mode().IsRegular():
			files = append(files, path)
		case !info.IsDir():
			other = append(other, path)
		}
	}
	return files, other, err
}

// absent matches a line that says that something is not there.
var absent = lazyregexp.New(`(?i)no such file|not found|cannot find|can't find|does not exist|doesn't exist|missing|ENOENT`)

// NamedIgnored returns the ignored files and directories of the worktree that a clone does not get, and that a
// text names in a line that says that something is missing: "build" is also what a program does.
func (r *Repo) NamedIgnored(ctx context.Context, text string) ([]string, error) {
	out, err := r.git.InWorktree(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return nil, fmt.Errorf("listing ignored files in %s: %w", r.git.Root, err)
	}
	words := map[string]bool{}
	for line := range strings.Lines(text) {
		if !absent().MatchString(line) {
			continue
		}
		for _, word := range strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t\r\n'\"`:;,()[]{}<>=/", c) }) {
			words[word] = true
		}
	}
	var named []string
	for path := range strings.SplitSeq(string(out), "\x00") {
		if name := strings.TrimSuffix(path, "/"); name != "" && name != ".ralph" && words[name[strings.LastIndexByte(name, '/')+1:]] {
			named = append(named, path)
		}
	}
	if len(named) == 0 || len(r.include) == 0 {
		return named, nil
	}
	included, _, err := r.ignored(ctx, r.include)
	return slices.DeleteFunc(named, func(path string) bool { return slices.Contains(included, path) }), err
}

// lacksIncluded reports whether a clone has not got the files that are included now.
func (r *Repo) lacksIncluded(st *state) bool { return !slices.Equal(st.Included, r.include) }

// sendIncluded copies the included files to a clone that has not got them.
func (r *Repo) sendIncluded(ctx context.Context, st *state, sh Shell, res *Result) error {
	if !r.lacksIncluded(st) {
		return nil
	}
	if err := r.CheckIncluded(ctx); err != nil {
		return err
	}
	paths, other, err := r.ignored(ctx, r.include)
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		from, to := io.Pipe()
		go func() { to.CloseWithError(r.archive(to, paths)) }()
		err = sh(ctx, includeScript, nil, from, io.Discard)
		_ = from.Close()
	}
	if err != nil {
		return fmt.Errorf("copying ignored files to sandbox %s: %w", r.name, err)
	}
	st.Included, res.Included, res.notIncluded = r.include, paths, other
	return r.save(*st)
}

// archive writes a tar archive of regular files of the worktree.
func (r *Repo) archive(w io.Writer, paths []string) error {
	root, err := os.OpenRoot(r.git.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewWriter(w)
	for _, path := range paths {
		if err := addFile(archive, root, path); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addFile(archive *tar.Writer, root *os.Root, path string) error {
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file any more", path)
	}
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(archive, f, info.Size())
	return err
}
