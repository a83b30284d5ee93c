package host

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
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
