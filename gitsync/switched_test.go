package gitsync

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What a hint says about a branch that is not checked out must not change the one that is.
func TestHintsForABranchThatIsNotCheckedOut(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	w.git("switch", "-q", "-c", "dev")
	w.write("dir/c.txt", "dev\n")
	w.git("commit", "-q", "-m", "dev", "--", "dir/c.txt")
	dev := w.tip("dev")

	c := fetchConflict(t, w, diverged)
	assert.Check(t, is.Contains(c.Hint(), `change to it with "git switch main", then accept the prepared merge with "git reset --keep refs/ralph/ralph-test/@merged"`))
	for _, args := range c.advice().commands {
		w.git(args...)
	}
	assert.Equal(t, w.tip("main"), w.tip(c.Merged))
	assert.Equal(t, w.tip("dev"), dev)
}

// An unborn branch that the user has left gets its first commits without a file.
func TestFirstCommitsOfABranchThatIsNotCheckedOut(t *testing.T) {
	t.Parallel()
	w := emptyRepo(t).createSandbox()
	tip := w.commit("a.txt", "a\n")
	w.git("checkout", "-q", "--orphan", "dev")
	w.write("a.txt", "user's\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	assert.Equal(t, w.git("status", "--porcelain"), "?? a.txt")
}

// Uncommitted work in a sandbox is stashed before it is overwritten, whatever the host has forgotten.
func TestLostStateKeepsUncommittedWork(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.fetch()
	assert.NilError(t, os.RemoveAll(w.repo.stateDir))
	w.writeInside("a.txt", "agent's\n")
	w.write("a.txt", "user's\n")
	w.git("commit", "-q", "-am", "user")
	w.push()
	assert.Equal(t, w.inSandbox("cat a.txt; git show 'stash@{0}:a.txt'"), "user's\nagent's")
}

// Commits that the user has reset away are not forgotten when the sandbox makes others.
func TestResetCommitsAreKept(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	before := w.tip("main")
	rejected := w.commit("a.txt", "rejected\n")
	assert.Equal(t, w.fetch().Commits, 1)
	w.git("reset", "-q", "--hard", before)
	w.push()
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	w.commit("b.txt", "other\n")
	w.fetch()
	assert.Check(t, is.Contains(w.git("for-each-ref", "--format=%(objectname)", "refs/ralph/ralph-test/@kept-*"), rejected))
}
