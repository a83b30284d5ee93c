package host

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// A sandbox is not stopped or removed under a command, whichever of the scope's it is.
func TestScopeLock(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	scope := gitrepo.Scope{Repo: "a/b", Branch: "main"}
	leave, err := h.LockShared(t.Context(), scope)
	assert.NilError(t, err)
	taken, err := h.LockExclusive(t.Context(), lifecycle.Sandbox{Name: "ralph-a-b-main-x", Scope: scope}, 0)
	assert.NilError(t, err)
	assert.Assert(t, taken == nil)
	leave()
	taken, err = h.LockExclusive(t.Context(), lifecycle.Sandbox{Scope: scope}, 0)
	assert.NilError(t, err)
	assert.Assert(t, taken != nil)
	taken()
}
