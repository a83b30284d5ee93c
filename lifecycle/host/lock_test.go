package host

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

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
	use, err := h.LockShared(t.Context(), "ralph-a-b-main-x")
	assert.NilError(t, err)
	assert.Assert(t, !exclusive("ralph-a-b-main-x"))
	assert.Assert(t, exclusive("ralph-a-b-main"))
	use.Leave()
	assert.Assert(t, exclusive("ralph-a-b-main-x"))
}

// Each ephemeral sandbox has locks of its own, which nothing needs later.
func TestRemoveRemovesTheLocksOfAnEphemeralSandbox(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	for _, sb := range []lifecycle.Sandbox{{Name: "box-abcdefgh", Ephemeral: true}, {Name: "box"}} {
		use, err := h.LockShared(t.Context(), sb.Name)
		assert.NilError(t, err)
		assert.NilError(t, h.Remove(t.Context(), removable{}, sb))
		use.Leave()
	}
	left, err := os.ReadDir(h.LockDir())
	assert.NilError(t, err)
	assert.Assert(t, is.Len(left, 1))
	assert.Equal(t, left[0].Name(), "box.use")
}

// A command that recreates a clone does not remove it under another one, nor does one begin meanwhile.
func TestUseExcludesOtherCommands(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	one, err := h.LockShared(t.Context(), "box")
	assert.NilError(t, err)
	other, err := h.LockShared(t.Context(), "box")
	assert.NilError(t, err)
	_, err = one.Exclude()
	assert.Error(t, err, "keeping sandbox box: another command is using it")
	other.Leave()
	done, err := one.Exclude()
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = h.LockShared(ctx, "box")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	done()
	other, err = h.LockShared(t.Context(), "box")
	assert.NilError(t, err)
	other.Leave()
	taken, err := h.LockExclusive(t.Context(), "box", 0)
	assert.NilError(t, err)
	assert.Assert(t, taken == nil, "it is in use again")
	one.Leave()
}
