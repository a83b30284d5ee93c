package worktrees

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// filterName are the names of filters that can be in a pathspec.
var filterName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Unfiltered returns the filters of the user, such as Git LFS, that have files in a new worktree:
// [Repository.Add] checks those out as they are committed.
func (r *Repository) Unfiltered(ctx context.Context, t Tree) ([]string, error) {
	config, err := r.git.ReadConfig(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, s := range config {
		if s.Section == "filter" && (s.Name == "smudge" || s.Name == "process") && filterName().MatchString(s.Sub) {
			names[s.Sub] = true
		}
	}
	g, err := gitrepo.NewGit(t.Path)
	if err != nil {
		return nil, err
	}
	var used []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out, err := g.Run(ctx, "ls-files", "-z", "--", ":(attr:filter="+name+")")
		if err != nil {
			return nil, fmt.Errorf("listing files of the filter %q: %w", name, err)
		}
		if strings.Contains(out, "\x00") {
			used = append(used, name)
		}
	}
	return used, nil
}
