package host

import (
	"errors"
	"io/fs"
	"os"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// SandboxName returns the recorded name of the worktree's sandbox and state, or the one that they
// would get.
func (h Host) SandboxName(wt gitrepo.Worktree) (string, error) {
	own, err := wt.OwnName()
	if err != nil {
		return "", err
	}
	if _, recorded := h.EngineRecord(own); recorded || h.CreatedBy(own) != "" {
		return own, nil
	}
	if o, found, err := owners.Read(h.StateDir, own); err == nil && found && o.Scope == wt.Scope && o.Root == wt.Root {
		return own, nil // also after its sandbox was removed
	}
	name, err := wt.Scope.SandboxName()
	if err == nil && h.ownedByAnother(name, wt) {
		return own, nil
	}
	return name, err
}

// UseOwnName returns the worktree's own name, because somebody else's sandbox has the other one. The state that the
// worktree has under that, such as its backlog, is kept.
func (h Host) UseOwnName(name string, wt gitrepo.Worktree) (own string, err error) {
	if own, err = wt.OwnName(); err != nil {
		return "", err
	}
	o, found, err := owners.Read(h.StateDir, name)
	if err != nil || !found || o.Scope != wt.Scope || o.Root != wt.Root {
		return own, err
	}
	err = os.Rename(scopes.Dir(h.StateDir, name), scopes.Dir(h.StateDir, own))
	if errors.Is(err, fs.ErrExist) { // it has state of its own
		err = nil
	}
	return own, err
}

// ownedByAnother reports whether a name, with all state, belongs to another scope or to an existing
// other worktree, whatever driver and engine its sandbox is on, and also after it was removed.
func (h Host) ownedByAnother(name string, wt gitrepo.Worktree) bool {
	o, found, err := owners.Read(h.StateDir, name)
	return err == nil && found && (o.Scope != wt.Scope || o.Root != wt.Root) && !Missing(o.Root)
}

// CreatedFor reports whether the sandbox is recorded as created for the scope and the worktree.
func (h Host) CreatedFor(kind string, spec lifecycle.Spec) bool {
	if kind == config.DriverContainer {
		return container.CreatedFor(h.StateDir, spec)
	}
	made, known := microvm.Remembered(h.StateDir, kind, spec.Name)
	return known && spec.Check(made) == nil
}

// Moved reports whether a sandbox is the one of a worktree that was moved since. That of another client may
// not be visible here, nor that of a sandbox without a label, which another client can have created.
func (h Host) Moved(sb lifecycle.Sandbox, wt gitrepo.Worktree) bool {
	return sb.Scope == wt.Scope && sb.Root != wt.Root && Missing(sb.Root) && sb.OtherClient == "" && h.CreatedBy(sb.Name) != ""
}
