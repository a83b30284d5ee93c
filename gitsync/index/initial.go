package index

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// Initial returns the index of a commit with the stat data of the user's index.
// Files of the user's filters are excluded from the agent's commits: the sandbox, which
// lacks the filters, would commit them unfiltered.
func Initial(ctx context.Context, git hostgit.Git, config gitrepo.Config, commit string) (content []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("preparing the sandbox's index: %w", err)
		}
	}()
	dir, err := os.MkdirTemp("", "docker-ralph-index-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "index")
	if err = git.Owner.Chown(dir); err != nil {
		return nil, err
	}
	if err = git.Owner.CopyFile(filepath.Join(git.GitDir, "index"), path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	g := git.With("GIT_INDEX_FILE=" + path)
	tip := ""
	if commit != "" {
		if tip, err = g.Resolve(ctx, commit); err != nil {
			return nil, err
		}
	}
	readTree := []string{"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.skipHash=false", "read-tree"}
	if tip == "" {
		_, err = g.Output(ctx, nil, append(readTree, "--empty")...)
	} else if _, err = g.Output(ctx, nil, append(readTree, "-m", tip)...); err != nil {
		_, err = g.Output(ctx, nil, append(readTree, "--reset", tip)...)
	}
	if err != nil {
		return nil, err
	}
	paths, err := g.Filtered(ctx, config)
	if err == nil && len(paths) > 0 {
		_, err = g.Output(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", "--skip-worktree", "-z", "--stdin")
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
