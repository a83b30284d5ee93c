package host

import (
	"bytes"
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// A sandbox is not stopped or removed under a command; others are.
func TestUseLockIsOfOneSandbox(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	exclusive := func(sandbox string) bool {
		leave, err := h.LockExclusive(t.Context(), sandbox, 0)
		assert.NilError(t, err)
		if leave != nil {
			leave()
		}
		return leave != nil
	}
	leave, err := h.LockShared(t.Context(), "ralph-a-b-main-x")
	assert.NilError(t, err)
	assert.Assert(t, !exclusive("ralph-a-b-main-x"))
	assert.Assert(t, exclusive("ralph-a-b-main"))
	leave()
	assert.Assert(t, exclusive("ralph-a-b-main-x"))
}

// Each ephemeral sandbox has locks of its own, which nothing needs later.
func TestRemoveRemovesTheLocksOfAnEphemeralSandbox(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	for _, sb := range []lifecycle.Sandbox{{Name: "box-abcdefgh", Ephemeral: true}, {Name: "box"}} {
		leave, err := h.LockShared(t.Context(), sb.Name)
		assert.NilError(t, err)
		assert.NilError(t, h.Remove(t.Context(), removable{}, sb))
		leave()
	}
	left, err := os.ReadDir(h.LockDir())
	assert.NilError(t, err)
	assert.Assert(t, is.Len(left, 1))
	assert.Equal(t, left[0].Name(), "box.use")
}
