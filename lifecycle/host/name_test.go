package host

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// The worktree of a sandbox that was not created here may be on another machine.
func TestMoved(t *testing.T) {
	scope := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: scope}
	sb := lifecycle.Sandbox{Name: "box", Scope: scope, Root: filepath.Join(t.TempDir(), "gone")}
	h := Host{StateDir: t.TempDir()}
	assert.Assert(t, !h.Moved(sb, wt), "no record of its creation")
	markKnown(t, h, sb.Name)
	assert.Assert(t, h.Moved(sb, wt))
	here := Here{host: h, Inside: true, Worktree: wt}
	assert.Assert(t, here.Has(sb) && here.Current(sb))

	sb.OtherClient = "una@laptop"
	assert.Assert(t, !h.Moved(sb, wt))
}

// The sandbox of a moved worktree has its old root until it is recreated, although its backlog and logs have the new one.
func TestScopeNameOfAMovedWorktree(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
	name, err := h.SandboxName(wt)
	assert.NilError(t, err)
	assert.NilError(t, h.SaveOwner(name, OwnerOf(wt)))
	sb := lifecycle.Sandbox{Name: name, Scope: wt.Scope, Root: filepath.Join(t.TempDir(), "gone")}
	for _, tc := range []struct {
		change func(*lifecycle.Sandbox)
		same   bool
	}{
		{func(*lifecycle.Sandbox) {}, true},
		{func(sb *lifecycle.Sandbox) { sb.Root = t.TempDir() }, false}, // another clone
		{func(sb *lifecycle.Sandbox) { sb.Scope.Branch = "other" }, false},
	} {
		other := sb
		tc.change(&other)
		got, err := h.ScopeName(other)
		assert.NilError(t, err)
		assert.Equal(t, got == name, tc.same)
	}
	assert.Equal(t, h.LogsOf(sb), h.LogsDir(name))
}

// A backlog that was created before the first sandbox goes to the name that the worktree gets then.
func TestStateGoesToTheOwnName(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}
	name, err := h.SandboxName(wt)
	assert.NilError(t, err)
	assert.NilError(t, h.SaveOwner(name, OwnerOf(wt)))
	assert.NilError(t, os.WriteFile(scopes.Path(h.StateDir, name, "tasks.db"), []byte("x"), 0o600))

	for range 2 { // the second time, there is nothing to move
		own, err := h.UseOwnName(name, wt)
		assert.NilError(t, err)
		assert.Assert(t, own != name)
		content, err := os.ReadFile(scopes.Path(h.StateDir, own, "tasks.db"))
		assert.NilError(t, err)
		assert.Equal(t, string(content), "x")
		has, err := h.SandboxName(wt)
		assert.NilError(t, err)
		assert.Equal(t, has, own)
	}

	// What another worktree has stays.
	other := gitrepo.Worktree{Root: t.TempDir(), Scope: wt.Scope}
	assert.NilError(t, h.SaveOwner(name, OwnerOf(other)))
	_, err = h.UseOwnName(name, wt)
	assert.NilError(t, err)
	_, err = os.Stat(scopes.Path(h.StateDir, name, "scope.json"))
	assert.NilError(t, err)
}
