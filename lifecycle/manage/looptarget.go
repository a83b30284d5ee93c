package manage

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// LoopTarget selects the loop of a sandbox, of a worktree, or of the current scope.
type LoopTarget struct {
	Sandbox  string         // empty for the others
	Worktree *host.Worktree // nil for the current one
}

// find returns the worktree and the name of its sandbox.
func (t LoopTarget) find(ctx context.Context, h host.Host) (wt gitrepo.Worktree, sandbox string, err error) {
	if t.Sandbox != "" {
		found, err := h.Select(ctx, host.Here{}, []string{t.Sandbox})
		if err != nil {
			return wt, "", err
		}
		sb := found[0].Sandbox
		if sb.OtherClient != "" {
			return wt, "", lifecycle.OfOtherClient(sb)
		}
		return gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope}, sb.Name, nil
	}
	h, exists, err := h.Existing(ctx, t.Worktree)
	if err != nil {
		return wt, "", err
	}
	if !exists {
		return wt, "", hint.Wrap(fmt.Errorf("no worktree %q", t.Worktree.Name), "list them with %q", "docker ralph worktree ls")
	}
	if wt, err = h.LoopWorktree(ctx); err != nil {
		return wt, "", err
	}
	sandbox, err = h.SandboxName(wt)
	return wt, sandbox, err
}
