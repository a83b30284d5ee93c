package dispatch

import (
	"context"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// sandboxName is the name of the worktree's sandbox, as far as this machine knows.
func (h Host) sandboxName(wt gitrepo.Worktree) (string, error) {
	own, err := wt.OwnName()
	if err != nil {
		return "", err
	}
	if h.kept(own) != "" {
		return own, nil
	}
	return wt.Scope.SandboxName()
}

// settleName finds the name for the worktree's sandbox. The first of several
// worktrees of one repository and branch has the plain one, whoever's they are. The
// driver is asked only if this machine does not know that it is ours.
func (h Host) settleName(ctx context.Context, wt gitrepo.Worktree, at *place) error {
	spec := lifecycle.Spec{Name: at.name, Scope: wt.Scope, Root: wt.Root}
	if h.madeFor(at.kind, spec) {
		return nil
	}
	sb, err := at.driver.Lookup(ctx, at.name)
	switch {
	case err != nil:
		return err
	case sb.State == lifecycle.NotFound || spec.Check(sb) == nil:
		return nil
	case h.moved(sb, wt):
		at.moved = sb.Root
		return nil
	}
	at.name, err = wt.OwnName()
	return err
}

// madeFor says whether this machine knows that the sandbox of that name was made
// for the scope and the worktree.
func (h Host) madeFor(kind string, spec lifecycle.Spec) bool {
	if kind == config.DriverContainer {
		return container.MadeFor(h.StateDir, spec)
	}
	made, known := microvm.Remembered(h.StateDir, kind, spec.Name)
	return known && spec.Check(made) == nil
}

// moved says whether a sandbox is that of the worktree, which was at another path
// when it was made. Another user's worktree need not be visible here, so only
// sandboxes count that were made from here.
func (h Host) moved(sb lifecycle.Sandbox, wt gitrepo.Worktree) bool {
	return sb.Scope == wt.Scope && sb.Root != wt.Root && gone(sb.Root) && h.kept(sb.Name) != ""
}

// relocate has the git directory of an adopted sandbox find the user's objects where
// the repository was moved to.
func relocate(ctx context.Context, at place, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	if at.moved == "" || spec.Git == nil {
		return nil
	}
	own, err := spec.Git(ctx)
	if err != nil {
		return err
	}
	const script = `printf '%s\n' "$1" >"$(git rev-parse --git-path objects/info/alternates)"`
	return shell(at.driver, sb)(ctx, script, []string{own.Borrowed[0].Target}, nil, nil)
}
