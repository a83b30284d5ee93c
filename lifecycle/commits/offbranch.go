package commits

import (
	"context"
	"slices"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// maxOffBranch bounds the commits that are searched for: an agent can write the logs.
const maxOffBranch = 200

// offBranch returns what runs for a sandbox's branch have committed elsewhere and the branch lacks, the
// latest first; nil for nothing. The logs have it, as nothing else knows which commits of the sandbox are
// those of a run.
func offBranch(ctx context.Context, h host.Host, sb lifecycle.Sandbox) *gitsync.Unmerged {
	var commits []string
	for _, loop := range runlog.History(h.LogsOf(sb)) {
		for _, run := range slices.Backward(loop.Runs) {
			commits = append(commits, run.OffBranch...)
		}
	}
	if len(commits) == 0 {
		return nil
	}
	wt, err := worktreeOf(ctx, h, sb)
	if err != nil {
		return nil // there is no branch
	}
	u, err := gitsync.OffBranch(ctx, wt, h.StateDir, sb.Name, sb.Scope.Branch, commits[:min(len(commits), maxOffBranch)])
	if err != nil {
		h.Warn(err)
	}
	return u
}
