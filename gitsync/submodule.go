package gitsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// submodule returns the path of a submodule that commits would add to tip, or that one
// of the commits between adds or changes; empty for none. tip may be empty.
//
// The directory of a submodule is a repository that the agent writes: git status, diff
// and commit would run the programs that its configuration names. All commits of a
// sandbox pass here before they are merged, get on the user's branch, or appear in a
// hint.
func (r *Repo) submodule(ctx context.Context, tip string, commits ...string) (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("searching the sandbox's commits for submodules: %w", err)
		}
	}()
	args := append([]string{"rev-list"}, commits...)
	if tip != "" {
		args = append(args, "--not", tip)
	}
	list, err := r.git.Output(ctx, nil, append(args, "--")...)
	if err != nil {
		return "", err
	}
	input := string(list)
	if tip != "" {
		for _, commit := range commits { // compared as if tip were its parent
			input += commit + " " + tip + "\n"
		}
	}
	out, err := r.git.Output(ctx, strings.NewReader(input), "diff-tree", "--stdin", "-r", "-m", "--root", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if info, path, is := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); is {
			if f := strings.Fields(info); len(f) == 5 && f[1] == hostgit.Submodule {
				return strings.Trim(path, `"`), nil
			}
		}
	}
	return "", nil
}

// submodules returns the path of a submodule for each of the commits that add one.
func (r *Repo) submodules(ctx context.Context, tip string, refs map[string]string) (map[string]string, error) {
	commits := slices.Compact(slices.Sorted(maps.Values(refs)))
	if len(commits) == 0 {
		return nil, nil
	}
	if path, err := r.submodule(ctx, tip, commits...); err != nil || path == "" {
		return nil, err
	}
	found := map[string]string{}
	for _, commit := range commits {
		path, err := r.submodule(ctx, tip, commit)
		if err != nil {
			return nil, err
		}
		if path != "" {
			found[commit] = path
		}
	}
	return found, nil
}
