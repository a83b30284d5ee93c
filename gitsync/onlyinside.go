package gitsync

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// onlyInsideScript lists what git ignores, whole directories by one name, and after an empty name what is
// untracked, where repositories in subdirectories end with a slash.
const onlyInsideScript = plainGit + `git ls-files -z --others --ignored --exclude-standard --directory && printf '\0' && git ls-files -z --others --exclude-standard
`

// ignoredInScript lists the ignored files in the directories that are its arguments.
const ignoredInScript = plainGit + `git ls-files -z --others --ignored --exclude-standard -- "$@"
`

// OnlyInside returns what a clone has, and neither commits nor the user's worktree have: files and directories
// that git ignores, and repositories in subdirectories.
func (r *Repo) OnlyInside(ctx context.Context, sh Shell) ([]string, error) {
	var out limited
	if err := sh(ctx, onlyInsideScript, nil, nil, &out); err != nil {
		return nil, fmt.Errorf("listing ignored files of sandbox %s: %w", r.name, err)
	}
	var only, both []string
	ignored, last := true, "/"
	for path := range strings.SplitSeq(out.String(), "\x00") {
		switch isDir := strings.HasSuffix(path, "/"); {
		case path == "":
			ignored = false
		case !ignored && !isDir, strings.HasPrefix(path, ".ralph/"), strings.HasSuffix(last, "/") && strings.HasPrefix(path, last), !filepath.IsLocal(filepath.FromSlash(path)):
		case !exists(r.git.Root, filepath.FromSlash(path)):
			last = path
			only = append(only, path)
		case ignored && isDir:
			last = path
			both = append(both, path)
		}
	}
	if len(both) == 0 {
		return only, nil
	}

	var files limited
	if err := sh(ctx, ignoredInScript, both, nil, &files); err != nil {
		return append(only, both...), ctx.Err() // too many
	}
	for path := range strings.SplitSeq(files.String(), "\x00") {
		if name := r.missingPart(path); name != "" && !slices.Contains(only, name) {
			only = append(only, name)
		}
	}
	return only, nil
}

// missingPart returns the first directory of a path that the user's worktree does not have, or the path; empty
// if it has all.
func (r *Repo) missingPart(path string) string {
	if path == "" || !filepath.IsLocal(filepath.FromSlash(path)) {
		return ""
	}
	for i, char := range path {
		if char == '/' && !exists(r.git.Root, filepath.FromSlash(path[:i])) {
			return path[:i+1]
		}
	}
	if exists(r.git.Root, filepath.FromSlash(path)) {
		return ""
	}
	return path
}
