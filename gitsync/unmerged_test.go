package gitsync

import (
	"context"
	"errors"
	"io"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What a sync leaves out of the user's branch is recorded, whatever the reason, until a sync takes
// it.
func TestUnmergedCommitsAreRecorded(t *testing.T) {
	t.Parallel()
	blocked := func(context.Context, Incoming) (bool, error) { return false, nil }
	for _, tc := range []struct {
		name, why string
		fetched   bool // to a ref
		spoil     func(w *fixture)
		fix       func(w *fixture)
	}{
		{
			"both sides have commits", "have diverged", true,
			func(w *fixture) { w.git("commit", "-q", "--allow-empty", "-m", "the user's") },
			func(w *fixture) { w.git("reset", "-q", w.sandboxGit("rev-parse", "main")) },
		},
		{
			"a submodule", `the submodule "inner"`, true,
			func(w *fixture) {
				w.sandboxGit("update-index", "--add", "--cacheinfo", "160000,"+w.tip("main")+",inner")
				w.sandboxGit("commit", "-q", "-m", "inner")
			},
			func(w *fixture) { w.sandboxGit("reset", "-q", "main~1") },
		},
		{
			"a merge in progress", "in progress", true,
			func(w *fixture) { w.git("update-ref", "MERGE_HEAD", "HEAD") },
			func(w *fixture) { w.git("update-ref", "-d", "MERGE_HEAD") },
		},
		{
			"invalid objects", "unpack-objects", false,
			func(w *fixture) { w.sandboxGit("reset", "-q", "--soft", w.badCommit()) },
			func(w *fixture) { w.sandboxGit("reset", "-q", "--soft", "main~1") },
		},
		{
			"held back", "were held back", false,
			func(w *fixture) { w.repo = w.repo.WithGate(blocked) },
			func(w *fixture) {
				w.repo = w.repo.WithGate(func(context.Context, Incoming) (bool, error) { return true, nil })
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			assert.NilError(t, w.repo.MarkDirty(t.Context()))
			w.commit("a.txt", "agent's\n")
			tc.spoil(w)
			for range 2 {
				_, _ = w.repo.Fetch(t.Context(), w.sh, true)
				u := UnmergedCommits(w.repo.stateDir, "ralph-test")
				assert.Assert(t, u != nil)
				assert.Equal(t, u.Branch, "main")
				assert.Assert(t, is.Contains(u.Why, tc.why))
				assert.Equal(t, u.Ref != "" && u.Commit != "", tc.fetched)
			}
			tc.fix(w)
			w.fetch()
			assert.Assert(t, UnmergedCommits(w.repo.stateDir, "ralph-test") == nil)
		})
	}
}

// A sandbox that cannot be asked counts only if it may have commits.
func TestFailedFetchIsUnmerged(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.fetch()
	lost := errors.New("the connection was lost")
	fetch := func() {
		_, err := w.repo.Fetch(t.Context(), func(context.Context, string, []string, io.Reader, io.Writer) error { return lost }, true)
		assert.ErrorIs(t, err, lost)
	}
	fetch()
	assert.Assert(t, UnmergedCommits(w.repo.stateDir, "ralph-test") == nil)
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	fetch()
	assert.Assert(t, is.Contains(UnmergedCommits(w.repo.stateDir, "ralph-test").Why, "the connection was lost"))
	w.fetch()
	assert.Assert(t, UnmergedCommits(w.repo.stateDir, "ralph-test") == nil)
}

// An agent that works is behind with nothing: only a reason that stays is recorded meanwhile.
func TestUnmergedCommitsWhileAnAgentWorks(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	follow := func(final string) {
		_, _, err := w.repo.Follow(t.Context(), w.sh, final)
		assert.NilError(t, err)
	}
	first := w.commit("a.txt", "agent's\n")
	follow("")
	assert.Assert(t, UnmergedCommits(w.repo.stateDir, "ralph-test") == nil)
	w.git("update-ref", "MERGE_HEAD", "HEAD")
	follow(first)
	assert.Assert(t, is.Contains(UnmergedCommits(w.repo.stateDir, "ralph-test").Why, "in progress"))
	w.git("update-ref", "-d", "MERGE_HEAD")
	w.commit("b.txt", "agent's\n")
	follow(first)
	assert.Equal(t, w.tip("main"), first)
	assert.Assert(t, UnmergedCommits(w.repo.stateDir, "ralph-test") == nil)
}
