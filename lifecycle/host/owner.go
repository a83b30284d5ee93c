package host

import (
	"cmp"
	"fmt"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// Owner is the worktree that a sandbox and its state were created for. It outlives the
// sandbox, so that what is left of deleted worktrees and repositories can be found.
type Owner struct {
	Scope      gitrepo.Scope `json:"scope"`
	Root       string        `json:"root"`
	Repository string        `json:"repository"` // as [lifecycle.Spec.Cache]
}

// OwnerOf returns the owner of the sandboxes of a worktree.
func OwnerOf(wt gitrepo.Worktree) Owner {
	return Owner{wt.Scope, wt.Root, cmp.Or(wt.MainRoot, wt.CommonDir)}
}

var owners = scopes.Section[Owner]("owner")

// SaveOwner records the owner of a sandbox.
func (h Host) SaveOwner(sandbox string, o Owner) error {
	if has, found, err := owners.Read(h.StateDir, sandbox); err == nil && found && has == o {
		return nil
	}
	if err := owners.Write(h.StateDir, sandbox, o); err != nil {
		return fmt.Errorf("recording the worktree of sandbox %s: %w", sandbox, err)
	}
	return nil
}

// Owners returns the recorded owners by the name of the sandbox.
func (h Host) Owners() (map[string]Owner, error) { return owners.All(h.StateDir) }
