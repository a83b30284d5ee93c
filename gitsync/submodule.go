package gitsync

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// submodule returns the path of a submodule that taking a commit over would put
// into the user's working tree: the commit's tree has it and that of tip has it
// not, or one of the commits between adds or changes it. It is empty if there is
// none. tip is the user's branch; empty for one without commits.
//
// The folder of a submodule is a repository of its own, in a working tree that the
// agent writes: git status, diff and commit would run the programs that its
// configuration names, as the user. All that comes out of a sandbox passes here
// before it is merged, given to the user's branch, or named in an advice.
func (r *Repo) submodule(ctx context.Context, tip string, commits ...string) (string, error) {
	args := append([]string{"rev-list"}, commits...)
	if tip != "" {
		args = append(args, "--not", tip)
	}
	list, err := r.git.run(ctx, nil, append(args, "--")...)
	if err != nil {
		return "", fmt.Errorf("looking for submodules in the sandbox's commits: %w", err)
	}
	var input bytes.Buffer
	_, _ = input.Write(list)
	if tip != "" {
		for _, commit := range commits { // as if tip were its parent
			_, _ = fmt.Fprintf(&input, "%s %s\n", commit, tip)
		}
	}
	out, err := r.git.run(ctx, &input, "diff-tree", "--stdin", "-r", "-m", "--root", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=none")
	if err != nil {
		return "", fmt.Errorf("looking for submodules in the sandbox's commits: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if info, path, is := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); is {
			if f := strings.Fields(info); len(f) == 5 && f[1] == gitlink {
				return strings.Trim(path, `"`), nil
			}
		}
	}
	return "", nil
}

// barred returns those of the commits that have a submodule, with its path.
func (r *Repo) barred(ctx context.Context, tip string, commits map[string]string) (map[string]string, error) {
	all := slices.Compact(slices.Sorted(maps.Values(commits)))
	if len(all) == 0 {
		return nil, nil
	}
	if path, err := r.submodule(ctx, tip, all...); err != nil || path == "" {
		return nil, err
	}
	barred := map[string]string{}
	for _, commit := range all {
		path, err := r.submodule(ctx, tip, commit)
		if err != nil {
			return nil, err
		}
		if path != "" {
			barred[commit] = path
		}
	}
	return barred, nil
}

// bar makes sure that a commit of the user's branch with a submodule is only where
// no advice leads to: a former version has put it elsewhere.
func (r *Repo) bar(ctx context.Context, branch, commit string, at where) error {
	input := fmt.Sprintf("update %s/%s%s %s\n", r.Prefix(), submoduleRef, branch, commit)
	if at.filed[branch] == commit {
		input += fmt.Sprintf("delete %s/%s\n", r.Prefix(), branch)
	}
	if at.filed[mergedRef] != "" {
		input += fmt.Sprintf("delete %s/%s\n", r.Prefix(), mergedRef)
	}
	return r.updateRefs(ctx, input)
}

// Submodule returns the path of a submodule that a commit of a sandbox would bring
// into the current branch; empty for none.
func (r *Repo) Submodule(ctx context.Context, ref string) (string, error) {
	tip, err := r.git.resolve(ctx, "HEAD")
	if err != nil {
		return "", err
	}
	return r.submodule(ctx, tip, ref)
}
