package gitsync

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo/filters"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// unencoded returns a file in a commit of the sandbox, or in one before it, whose content a
// filter of the user should have encoded; nil for none. The sandbox has no filters. The commits
// of the user's branches are the user's. The attributes of tip, the user's branch, count, too: commits
// that take them away could be followed by some that restore them.
func (r *Repo) unencoded(ctx context.Context, tip, commit string) (_ *filters.Raw, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("searching the sandbox's commits for content without a filter: %w", err)
		}
	}()
	config, err := r.git.Config(ctx)
	if err != nil {
		return nil, err
	}
	names := hostgit.Filters(config)
	if len(names) == 0 {
		return nil, nil
	}
	list, err := r.git.Output(ctx, nil, "rev-list", commit, "--not", "--branches", "--remotes", "--tags", "--")
	if err != nil {
		return nil, err
	}
	changes, err := filters.Changes(ctx, r.git.Git, strings.Fields(string(list)))
	if err != nil {
		return nil, err
	}
	for _, at := range []string{commit, tip} {
		if at == "" {
			continue
		}
		raw, err := filters.Find(ctx, r.git.Git, at, changes, func(name string) bool { return slices.Contains(names, name) })
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 {
			return &raw[0], nil
		}
	}
	return nil, nil
}
