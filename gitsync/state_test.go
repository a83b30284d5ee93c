package gitsync

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A command that only reads the backlog does not wait for a push of another one.
func TestUnchangedReleaseNeedsNoLock(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	_, unlock, err := w.repo.lock(t.Context())
	assert.NilError(t, err)
	assert.NilError(t, w.repo.SetReleased(t.Context(), false))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, w.repo.SetReleased(ctx, true), context.DeadlineExceeded)
	unlock()
	assert.NilError(t, w.repo.SetReleased(t.Context(), true))
	assert.NilError(t, w.repo.SetReleased(t.Context(), false))
	st, err := w.repo.readState()
	assert.NilError(t, err)
	assert.Assert(t, !st.Released)
}
