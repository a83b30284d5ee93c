package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// ApproveNested asks the user to approve a repository inside another one that does
// not track it: an agent of the outer one could have created it, with an origin and
// settings of its choice.
func ApproveNested(ctx context.Context, h host.Host, wt gitrepo.Worktree) error {
	a, err := nestedApproval(ctx, wt)
	if err != nil || a.digest == "" {
		return err
	}
	return approve(ctx, h, config.NewTrustStore(h.StateDir), a)
}

// CheckNested is [ApproveNested] for the repository of the current directory, before a command
// reads it. It leaves errors of the repository to the command.
func CheckNested(ctx context.Context, h host.Host) error {
	if !gitrepo.MayBeNested(h.Dir) {
		return nil
	}
	wt, err := gitrepo.Detect(ctx, h.Dir, host.AnyScope)
	if err != nil {
		return nil //nolint:nilerr // no command works here
	}
	return ApproveNested(ctx, h, wt)
}

// nestedApproval returns the zero value for a repository that is not nested.
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
		subject: "repository " + root, change: "it is inside repository " + outer + ", which does not track it",
		details: []string{
			"It is inside repository " + outer + ",",
			"but is neither a submodule nor a worktree of it. An agent there could have created it.",
			claim,
		},
		question: "Use it?",
	}, nil
}

func digestOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%q\n", part)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
