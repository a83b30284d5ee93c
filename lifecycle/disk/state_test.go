package disk

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// The backlog goes with the worktree, and the user sees what would be lost.
func TestStateOfARemovedWorktree(t *testing.T) {
	ctx := t.Context()
	for _, tc := range []struct {
		name   string
		tasks  []string
		gone   bool
		reason string
	}{
		{"in use", []string{"a"}, false, ""},
		{"no tasks", nil, true, " does not exist"},
		{"unfinished tasks", []string{"a", "b"}, true, " does not exist, and 2 unfinished tasks would be lost"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host.Host{StateDir: t.TempDir(), Stderr: t.Output()}
			wt := gitrepo.Worktree{Root: filepath.Join(t.TempDir(), "shop"), Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}
			assert.NilError(t, os.Mkdir(wt.Root, 0o755))
			store, err := backlogs.Open(ctx, h, wt)
			assert.NilError(t, err)
			for _, slug := range tc.tasks {
				assert.NilError(t, store.Create(ctx, backlog.NewTask{Slug: slug, Title: slug}))
			}
			assert.NilError(t, store.Close())
			if tc.gone {
				assert.NilError(t, os.Remove(wt.Root))
			}

			owners, err := h.Owners()
			assert.NilError(t, err)
			inv := &inventory{host: h, owners: owners}
			const name = "ralph-acme-shop-main"
			item := inv.stateItem(ctx, name)
			assert.Equal(t, item.Reclaimable, tc.gone)
			if !tc.gone {
				return
			}
			assert.Equal(t, item.Reason, wt.Root+tc.reason)
			assert.NilError(t, item.remove(ctx))
			_, err = os.Stat(scopes.Dir(h.StateDir, name))
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
