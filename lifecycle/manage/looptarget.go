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

// Find returns the worktree and the name of its scope's sandbox.
func (t LoopTarget) Find(ctx context.Context, h host.Host) (wt gitrepo.Worktree, sandbox string, err error) {
	if t.Sandbox != "" {
		return t.findSandbox(ctx, h)
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

// findSandbox finds the scope of the sandbox, which may have been removed. An engine is needed only for an ephemeral
// one, whose logs are those of its worktree.
func (t LoopTarget) findSandbox(ctx context.Context, h host.Host) (wt gitrepo.Worktree, name string, err error) {
	owners, err := h.Owners()
	if err != nil {
		return wt, "", err
	}
	if o, found := owners[t.Sandbox]; found {
		record, _ := h.EngineRecord(t.Sandbox)
		return gitrepo.Worktree{Root: o.Root, MainRoot: record.MainRoot, Scope: o.Scope}, t.Sandbox, nil
	}
	found, err := h.Select(ctx, host.Here{}, []string{t.Sandbox})
	if err != nil {
		return wt, "", err
	}
	sb := found[0].Sandbox
	if sb.OtherClient != "" {
		return wt, "", lifecycle.OfOtherClient(sb)
	}
	wt = gitrepo.Worktree{Root: sb.Root, MainRoot: sb.MainRoot, Scope: sb.Scope}
	if name = sb.Name; sb.Ephemeral {
		name, err = h.SandboxName(wt)
	}
	return wt, name, err
}
