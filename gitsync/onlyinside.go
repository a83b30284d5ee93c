package gitsync

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// onlyInsideScript lists what git ignores, whole directories by one name, and after an empty name what is
// untracked, where repositories in subdirectories end with a slash.
const onlyInsideScript = plainGit + `git ls-files -z --others --ignored --exclude-standard --directory && printf '\0' && git ls-files -z --others --exclude-standard
`

// OnlyInside returns what a clone has, and neither commits nor the user's worktree have: files and directories
// that git ignores, and repositories in subdirectories.
func (r *Repo) OnlyInside(ctx context.Context, sh Shell) ([]string, error) {
	var out limited
	if err := sh(ctx, onlyInsideScript, nil, nil, &out); err != nil {
		return nil, fmt.Errorf("listing ignored files of the sandbox %s: %w", r.name, err)
	}
	var paths []string
	ignored, last := true, "/"
	for path := range strings.SplitSeq(out.String(), "\x00") {
		local := filepath.FromSlash(path)
		switch {
		case path == "":
			ignored = false
		case !ignored && !strings.HasSuffix(path, "/"), strings.HasPrefix(path, ".ralph/"), strings.HasSuffix(last, "/") && strings.HasPrefix(path, last):
		case filepath.IsLocal(local) && !exists(r.git.Root, local):
			last = path
			paths = append(paths, path)
		}
	}
	return paths, nil
}
