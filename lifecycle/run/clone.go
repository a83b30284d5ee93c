package run

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// checkOwner returns an error, before a sandbox is created, if one of another driver has the clone of the branch:
// what is known about its commits has the same name.
func (t Target) checkOwner(ctx context.Context, h host.Host) error {
	if t.spec.Ephemeral { // its name is unique
		return nil
	}
	if t.Kind != config.DriverContainer && h.CreatedBy(t.name) == config.DriverContainer && gitsync.IsClone(h.StateDir, t.name) {
		return t.elsewhere("container")
	}
	for _, kind := range microvm.Drivers() {
		made, known := microvm.Remembered(h.StateDir, kind, t.name)
		if !known || kind == t.Kind || !t.spec.Clone && !made.Clone || made.Name != "" && t.spec.Check(made) != nil {
			continue
		}
		sb, err := h.MicroVM(kind, nil).Lookup(ctx, t.name)
		if err != nil {
			return err
		}
		if sb.State != lifecycle.NotFound {
			return t.elsewhere("microVM")
		}
	}
	return nil
}

func (t Target) elsewhere(what string) error {
	return hint.Wrap(fmt.Errorf("branch %s has the %s %s", t.wt.Scope.Branch, what, t.name), "remove it with %q", "docker ralph clean "+t.name)
}

// maxReflog is the budget of a branch's reflog, which the agent of a live sandbox can write.
const maxReflog = 16 << 20

// RenamedSandboxes returns the owners of the sandboxes of a worktree and its branch from before the branch was
// renamed, or origin was changed, by the names of the sandboxes.
func RenamedSandboxes(h host.Host, wt gitrepo.Worktree) (map[string]host.Owner, error) {
	owners, err := h.Owners()
	if err != nil {
		return nil, err
	}
	branch := wt.Scope.Branch
	reflog, _ := budget.ReadFile(filepath.Join(wt.CommonDir, "logs", "refs", "heads", branch), maxReflog) // none: not renamed
	maps.DeleteFunc(owners, func(_ string, o host.Owner) bool {
		renamed := o.Scope.Branch == branch || strings.Contains(string(reflog), fmt.Sprintf("renamed refs/heads/%s to refs/heads/%s\n", o.Scope.Branch, branch))
		return o.Scope == wt.Scope || o.Root != wt.Root || !renamed
	})
	return owners, nil
}
