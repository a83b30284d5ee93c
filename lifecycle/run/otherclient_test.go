package run

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// taken is a driver with a sandbox of another client.
type taken struct {
	lifecycle.Driver
	sb lifecycle.Sandbox
}

func (d taken) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	return lifecycle.Sandbox{}, lifecycle.OfOtherClient(d.sb)
}

// The name of another client's sandbox is an error for the same path, and taken for another one.
func TestSandboxNameOfAnotherClient(t *testing.T) {
	scope := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	for root, refused := range map[string]bool{"/src": true, "/other": false} {
		wt := gitrepo.Worktree{Root: root, Scope: scope}
		own, err := wt.OwnName()
		assert.NilError(t, err)
		sb := lifecycle.Sandbox{Name: "plain", Scope: scope, Root: "/src", OtherClient: "una@laptop"}
		at := Choice{Backend: host.Backend{Kind: "container", Driver: taken{sb: sb}}, name: "plain"}

		err = resolveName(t.Context(), host.Host{StateDir: t.TempDir()}, wt, &at)
		if refused {
			assert.Error(t, err, "sandbox plain belongs to another client, una@laptop")
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, at.name, own)
		assert.Equal(t, at.moved, "", "although its worktree is not here")
	}
}
