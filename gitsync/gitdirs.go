package gitsync

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// partsByDir returns which of [hostgit.GitDirParts] directories have, of the files in paths. The root is not one of
// them.
func partsByDir(paths []string) map[string]map[string]bool {
	dirs := map[string]map[string]bool{}
	for _, path := range paths {
		names := strings.Split(path, "/")
		for i, name := range names {
			part := strings.ToLower(name)
			if i == 0 || !slices.Contains(hostgit.GitDirParts, part) {
				continue
			}
			dir := strings.Join(names[:i], "/")
			if dirs[dir] == nil {
				dirs[dir] = map[string]bool{}
			}
			dirs[dir][part] = true
		}
	}
	return dirs
}

// committedGitDirs returns the directories that the commits between two change, and that are git directories
// in the last.
func (r *Repo) committedGitDirs(ctx context.Context, from, to string) ([]string, error) {
	list := func(args ...string) ([]string, error) {
		out, err := r.git.Output(ctx, nil, args...)
		if err != nil {
			return nil, fmt.Errorf("searching the sandbox's commits for git directories: %w", err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
	}
	changed, err := list("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", from, to)
	if err != nil {
		return nil, err
	}
	candidates := partsByDir(changed)
	if len(candidates) == 0 {
		return nil, nil
	}
	all, err := list("ls-tree", "-r", "-z", "--name-only", "--full-tree", to)
	if err != nil {
		return nil, err
	}
	var found []string
	for dir, parts := range partsByDir(all) {
		if candidates[dir] != nil && len(parts) == len(hostgit.GitDirParts) {
			found = append(found, dir)
		}
	}
	return slices.Sorted(slices.Values(found)), nil
}
