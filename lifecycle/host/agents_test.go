package host

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

func TestFirstAgentIsAlone(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	share := func(first func(alone bool) error) (leave func(), err error) {
		return h.ShareAgents(t.Context(), "ralph-x", first)
	}
	expect := func(want bool) func(bool) error {
		return func(alone bool) error {
			assert.Equal(t, alone, want)
			return nil
		}
	}
	free := func() bool {
		unlock, err := h.TryLockAgents("ralph-x")
		assert.NilError(t, err)
		if unlock == nil {
			return false
		}
		unlock()
		return true
	}

	// Another one waits for the first one's preparations, and is not alone then.
	second := make(chan func(), 1)
	leave, err := share(func(alone bool) error {
		assert.Assert(t, alone)
		go func() {
			leave, err := share(func(bool) error { return nil })
			assert.Check(t, err)
			second <- leave
		}()
		assert.Assert(t, !free())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := h.ShareAgents(ctx, "ralph-x", expect(false))
		assert.ErrorIs(t, err, context.Canceled)
		return nil
	})
	assert.NilError(t, err)
	(<-second)()
	third, err := share(expect(false))
	assert.NilError(t, err)
	third()
	assert.Assert(t, !free())
	leave()
	assert.Assert(t, free())

	failed := errors.New("failed")
	_, err = share(func(bool) error { return failed })
	assert.Equal(t, err, failed)
	assert.Assert(t, free())
}
