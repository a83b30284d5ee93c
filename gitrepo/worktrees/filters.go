package worktrees

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Unfiltered returns the filters of the user, such as Git LFS, that have files in a new worktree:
// [Repository.Add] checks those out as they are committed.
func (r *Repository) Unfiltered(ctx context.Context, t Tree) ([]string, error) {
	config, err := r.git.ReadConfig(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, s := range config {
		if s.Section == "filter" && (s.Name == "smudge" || s.Name == "process") {
			names[s.Sub] = true
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	g, err := gitrepo.NewGit(t.Path)
	if err != nil {
		return nil, err
	}
	files, err := g.Run(ctx, "ls-files", "-z")
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	attributes := g.Buffer("check-attr")
	if err := g.Stream(ctx, strings.NewReader(files), attributes, "check-attr", "--cached", "-z", "--stdin", "filter"); err != nil {
		return nil, fmt.Errorf("reading attributes: %w", err)
	}
	used := map[string]bool{}
	fields := strings.Split(attributes.String(), "\x00") // path, attribute and value of each
	for i := 0; i+2 < len(fields); i += 3 {
		if name := fields[i+2]; names[name] {
			used[name] = true
		}
	}
	return slices.Sorted(maps.Keys(used)), nil
}
