package gitsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// freshIndex returns the index that the sandbox begins with: that of a commit, with what git has noted about the files. Those are left out of the
// agent's commits that only the user's own filters can turn into what belongs there.
func (r *Repo) freshIndex(ctx context.Context, all []setting, commit string) (content []byte, err error) {
	dir, err := os.MkdirTemp("", "docker-ralph-index-")
	if err != nil {
		return nil, fmt.Errorf("preparing the sandbox's index: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "index")
	err = r.git.owner.give(dir)
	if err == nil {
		err = r.git.owner.copyFile(filepath.Join(r.gitDir, "index"), path)
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("preparing the sandbox's index: %w", err)
	}
	g := r.git.with(append(withoutFilters(all), "GIT_INDEX_FILE="+path)...)
	tip := ""
	if commit != "" {
		if tip, err = g.resolve(ctx, commit); err != nil {
			return nil, err
		}
	}
	whole := []string{"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.skipHash=false", "read-tree"}
	if tip == "" {
		_, err = g.run(ctx, nil, append(whole, "--empty")...)
	} else if _, err = g.run(ctx, nil, append(whole, "-m", tip)...); err != nil {
		_, err = g.run(ctx, nil, append(whole, "--reset", tip)...)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the sandbox's index: %w", err)
	}
	paths, err := filteredPaths(ctx, g, all)
	if err == nil && len(paths) > 0 {
		_, err = g.run(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", "--skip-worktree", "-z", "--stdin")
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the sandbox's index: %w", err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("preparing the sandbox's index: %w", err)
	}
	return content, nil
}

// filteredPaths returns the files that filters of the user's configuration
// (git-lfs, git-crypt) turn into something else when they are committed. The
// sandbox has none of these: there, the contents would be committed as they are.
// If git cannot read the attributes in the work tree, those of the index count.
func filteredPaths(ctx context.Context, g git, all []setting) (paths []string, err error) {
	blocked := false
	g = g.with("GIT_LITERAL_PATHSPECS=0")
	for _, name := range filters(all) {
		args := []string{"ls-files", "-z", "--", ":(attr:filter=" + name + ")"}
		var out []byte
		if !blocked {
			out, err = g.look(ctx, args...)
			blocked = errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		}
		if blocked {
			out, err = g.run(ctx, nil, args...)
		}
		if err != nil {
			return nil, fmt.Errorf("looking for files of the filter %q: %w", name, err)
		}
		for path := range strings.SplitSeq(string(out), "\x00") {
			if path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// filters are the names of the filters that the user has set up.
func filters(all []setting) []string {
	var names []string
	for _, s := range all {
		if s.section == "filter" && (s.name == "clean" || s.name == "process") && s.value != "" && remoteName().MatchString(s.sub) && !slices.Contains(names, s.sub) {
			names = append(names, s.sub)
		}
	}
	return names
}

// copyFile makes a copy for the owner, with the permissions of the original.
func (o owner) copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
		return err
	}
	return o.give(to)
}

// indexEdit is a change of the user's index: made beside it while its lock is
// held, and put in its place at the end.
type indexEdit struct {
	lock, temp, looked, index string
	owner                     owner
}

func newToken() string { return "docker-ralph " + rand.Text() }

func (r *Repo) indexEdit(token string) indexEdit {
	index := filepath.Join(r.gitDir, "index")
	_, id, _ := strings.Cut(token, " ")
	temp := index + ".ralph-" + id
	return indexEdit{lock: index + ".lock", temp: temp, looked: temp + ".looked", index: index, owner: r.git.owner}
}

// begin takes git's own lock of the index, marked with the token, and copies the
// index.
func (e indexEdit) begin(token string) error {
	f, err := os.OpenFile(e.lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(token)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = e.owner.give(e.lock)
	}
	if err == nil {
		err = e.owner.copyFile(e.index, e.temp)
	}
	if os.IsNotExist(err) {
		err = nil // a repository without an index yet
	}
	return err
}

// finish puts the new index in place.
func (e indexEdit) finish() error {
	err := os.Rename(e.temp, e.index)
	if os.IsNotExist(err) {
		err = nil
	}
	return err
}

// clear removes what the edit has left, if it was ours.
func (e indexEdit) clear(token string) {
	if content, err := os.ReadFile(e.lock); err == nil && string(content) == token {
		_ = os.Remove(e.lock)
	}
	for _, path := range []string{e.temp, e.looked} {
		_ = os.Remove(path)
		_ = os.Remove(path + ".lock")
	}
}
