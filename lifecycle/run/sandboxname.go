package run

import (
	"context"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// resolveName returns the name of the worktree's sandbox. The first of several worktrees with
// the same scope gets the plain name. It looks the sandbox up only if it is not recorded.
func resolveName(ctx context.Context, h host.Host, wt gitrepo.Worktree, at *Choice) error {
	spec := lifecycle.Spec{Name: at.name, Scope: wt.Scope, Root: wt.Root}
	if h.CreatedFor(at.Kind, spec) {
		return nil
	}
	sb, err := at.Driver.Lookup(ctx, at.name)
	if other, is := lifecycle.SandboxOfOtherClient(err); is && spec.Check(other) != nil {
		sb, err = other, nil
	}
	switch {
	case err != nil:
		return err
	case sb.State == lifecycle.NotFound || spec.Check(sb) == nil:
		return nil
	case h.Moved(sb, wt):
		at.moved = sb.Root
		return nil
	}
	at.name, err = h.UseOwnName(at.name, wt)
	return err
}

// restrict applies the network policy to a microVM before an agent is started in it.
func restrict(ctx context.Context, at Choice, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	d, ok := at.Driver.(lifecycle.Restricter)
	if !ok {
		return nil
	}
	return d.Restrict(ctx, sb, spec.Egress)
}
