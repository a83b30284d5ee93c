package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
)

// ApproveNested has the user approve a repository that lies inside another one,
// which does not know it: an agent of the outer one could have made it, and chosen
// its origin, its settings and what git takes it for.
func ApproveNested(ctx context.Context, h host.Host, wt gitrepo.Worktree) error {
	a, err := nestedApproval(ctx, wt)
	if err != nil || a.digest == "" {
		return err
	}
	return approve(ctx, h, config.NewTrustStore(h.StateDir), a)
}

// nestedApproval is empty for a repository that lies in no other one.
func nestedApproval(ctx context.Context, wt gitrepo.Worktree) (approval, error) {
	outer := wt.Outer()
	if outer == "" {
		return approval{}, nil
	}
	origin, err := wt.Origin(ctx)
	if err != nil {
		return approval{}, err
	}
	claim := "It has no origin."
	if slug, err := gitrepo.Slug(origin); err == nil {
		claim = "Its origin is " + host.Quote(slug) + ", which your token for the git host could be used for."
	}
	root := cmp.Or(wt.MainRoot, wt.Root)
	return approval{
		root: root, digest: digestOf("nested", outer, origin),
		subject: "the repository " + root, change: "it lies inside the repository " + outer + ", which does not know it",
		details: []string{
			"It lies inside the repository " + outer + ",",
			"which knows it neither as a submodule nor as a worktree. An agent there could have made it.",
			claim,
		},
		question: "Use it?",
	}, nil
}

// ApproveAlternates has the user approve the folders that a repository borrows
// objects from, and returns them: a sandbox can read all that is in them.
func ApproveAlternates(ctx context.Context, h host.Host, wt gitrepo.Worktree) ([]string, error) {
	a, borrowed, err := alternatesApproval(wt)
	if err != nil || a.digest == "" {
		return nil, err
	}
	return borrowed, approve(ctx, h, config.NewTrustStore(h.StateDir), a)
}

// alternatesApproval is empty for a repository that borrows nothing.
func alternatesApproval(wt gitrepo.Worktree) (approval, []string, error) {
	borrowed, err := gitsync.Alternates(wt.CommonDir)
	if err != nil || len(borrowed) == 0 {
		return approval{}, nil, err
	}
	root := cmp.Or(wt.MainRoot, wt.Root)
	a := approval{
		root: root, digest: digestOf(append([]string{"alternates"}, borrowed...)...),
		subject: "borrowing objects from " + host.Quote(borrowed[0]), change: "by the repository " + root,
		question: "Let the agent read them?",
	}
	if n := len(borrowed) - 1; n > 0 {
		a.subject += fmt.Sprintf(" and %d more", n)
	}
	a.details = append(a.details, "The agent could read every object in")
	for _, dir := range borrowed {
		a.details = append(a.details, "  "+host.Quote(dir))
	}
	return a, borrowed, nil
}

// digestOf identifies a list of strings.
func digestOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%q\n", part)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
