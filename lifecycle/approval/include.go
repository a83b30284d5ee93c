package approval

import (
	"context"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// ApproveIncludes asks the user to approve the patterns in a worktree's .worktreeinclude, whose ignored
// files a clone gets, and returns them.
func ApproveIncludes(ctx context.Context, h host.Host, wt gitrepo.Worktree) ([]string, error) {
	a, patterns, err := includesApproval(wt)
	if err != nil || a.digest == "" {
		return nil, err
	}
	return patterns, approve(ctx, h, config.NewTrustStore(h.StateDir), a)
}

// includesApproval returns the zero value for a worktree without patterns.
func includesApproval(wt gitrepo.Worktree) (approval, []string, error) {
	patterns, err := config.ReadIncludeFile(wt.Root)
	if err != nil || len(patterns) == 0 {
		return approval{}, nil, err
	}
	a := approval{
		root: wt.Root, digest: digestOf(append([]string{config.IncludeFile}, patterns...)...),
		subject: "copying ignored files to the sandbox", change: "by " + config.IncludeFile + " in " + wt.Root,
		question: "Let the agent read them?",
		details:  []string{"The agent could read the ignored files that match"},
	}
	for _, p := range patterns {
		a.details = append(a.details, "  "+host.Quote(p))
	}
	return a, patterns, nil
}
