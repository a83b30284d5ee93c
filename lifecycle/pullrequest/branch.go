package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// branch is a branch of the user and where it is to be merged.
type branch struct {
	git       gitrepo.Git
	name, tip string
	base      string          // the branch of origin
	commits   map[string]bool // that the base lacks
}

// find finds what the branch adds to its base, which is the default branch of origin unless it is given.
func (b *branch) find(ctx context.Context, base string) (err error) {
	if b.tip, err = b.resolve(ctx, "refs/heads/"+b.name); err != nil {
		return err
	}
	main, err := b.defaultBranch(ctx)
	if err != nil {
		return err
	}
	if b.base = base; base == "" {
		b.base = main
	}
	switch {
	case b.tip == "":
		return fmt.Errorf("branch %s has no commits", termsafe.Name(b.name))
	case b.base == "":
		return hint.Wrap(errors.New("the default branch of origin is unknown"), "pass --base, or run %q", "git remote set-head origin --auto")
	case b.name == main || b.name == b.base:
		return hint.Wrap(fmt.Errorf("%s is the branch to merge into", termsafe.Name(b.name)), "run loops on a branch of their own, e.g. with --worktree=NAME")
	}
	from, err := b.resolve(ctx, "refs/remotes/origin/"+b.base)
	if err != nil {
		return err
	}
	if from == "" {
		return hint.Wrap(fmt.Errorf("origin has no branch %s that is known here", termsafe.Name(b.base)), "fetch it with %q", "git fetch origin")
	}
	out, err := b.git.Run(ctx, "rev-list", from+".."+b.tip, "--")
	if err != nil {
		return fmt.Errorf("comparing %s with %s: %w", termsafe.Name(b.name), termsafe.Name(b.base), err)
	}
	b.commits = map[string]bool{}
	for commit := range strings.FieldsSeq(out) {
		b.commits[commit] = true
	}
	if len(b.commits) == 0 {
		return fmt.Errorf("%s has no commits that %s of origin lacks", termsafe.Name(b.name), termsafe.Name(b.base))
	}
	return nil
}

// defaultBranch returns that of origin; empty if it is unknown.
func (b *branch) defaultBranch(ctx context.Context) (string, error) {
	head, err := b.git.Run(ctx, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
	if name, ok := strings.CutPrefix(strings.TrimSpace(head), "refs/remotes/origin/"); err == nil && ok {
		return name, nil
	}
	if err != nil && !gitrepo.SaysNo(err) {
		return "", fmt.Errorf("reading the default branch of origin: %w", err)
	}
	for _, name := range []string{"main", "master"} {
		if commit, err := b.resolve(ctx, "refs/remotes/origin/"+name); err != nil || commit != "" {
			return name, err
		}
	}
	return "", nil
}

// resolve returns the commit of a ref; empty if there is none.
func (b *branch) resolve(ctx context.Context, ref string) (string, error) {
	out, err := b.git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	return strings.TrimSpace(out), nil
}

// maxTitle is the length of a title that an agent has written.
const maxTitle = 100

// title returns the title of the only task or commit, or else the name of the branch.
func (b *branch) title(ctx context.Context, tasks []backlog.Task) (string, error) {
	switch {
	case len(tasks) == 1:
		return termsafe.Shorten(termsafe.Line(tasks[0].Title), maxTitle), nil
	case len(b.commits) > 1:
		return b.name, nil
	}
	subject, err := b.git.Run(ctx, "log", "-1", "--format=%s", b.tip, "--")
	if err != nil {
		return "", fmt.Errorf("reading the commit %.10s: %w", b.tip, err)
	}
	return termsafe.Shorten(termsafe.Line(subject), maxTitle), nil
}
