package host

import (
	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// SandboxName is the name of the worktree's sandbox, as far as this machine knows.
func (h Host) SandboxName(wt gitrepo.Worktree) (string, error) {
	own, err := wt.OwnName()
	if err != nil {
		return "", err
	}
	if h.Kept(own) != "" {
		return own, nil
	}
	return wt.Scope.SandboxName()
}

// MadeFor says whether this machine knows that the sandbox of that name was made
// for the scope and the worktree.
func (h Host) MadeFor(kind string, spec lifecycle.Spec) bool {
	if kind == config.DriverContainer {
		return container.MadeFor(h.StateDir, spec)
	}
	made, known := microvm.Remembered(h.StateDir, kind, spec.Name)
	return known && spec.Check(made) == nil
}

// Moved says whether a sandbox is that of the worktree, which was at another path
// when it was made. Another user's worktree need not be visible here, so only
// sandboxes count that were made from here.
func (h Host) Moved(sb lifecycle.Sandbox, wt gitrepo.Worktree) bool {
	return sb.Scope == wt.Scope && sb.Root != wt.Root && Gone(sb.Root) && h.Kept(sb.Name) != ""
}
