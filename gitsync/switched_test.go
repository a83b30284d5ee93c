package gitsync

import (
	"os"
	"path/filepath"
	"strings"
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

// A branch that a rebase or bisect in another worktree has started from is not moved: that moves it back, or
// checks it out, at its end.
func TestBranchInUseInAnotherWorktree(t *testing.T) {
	t.Parallel()
	const rebase = "git -C THERE rebase -q -x false --root"
	for _, tc := range []struct{ name, begin, end, why string }{
		{"rebase", rebase, "git -C THERE rebase --abort", "your branch is in use by a rebase in another worktree: "},
		{"rebase with apply", "git -C THERE switch -q --detach; mkdir -p .git/worktrees/there/rebase-apply; echo refs/heads/main > .git/worktrees/there/rebase-apply/head-name", "rm -r .git/worktrees/there/rebase-apply; git -C THERE switch -q main", "your branch is in use by a rebase in another worktree: "},
		{"bisect", "git -C THERE bisect start -q; git -C THERE bisect bad; git -C THERE checkout -q --detach", "git -C THERE bisect reset", "your branch is in use by a bisect in another worktree: "},
		{"rebase of another branch", "git -C THERE switch -q -c more; " + rebase, "", ""},
		{"rebase in a worktree that was removed", rebase + "; rm -rf THERE", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			there := filepath.Join(w.dir, "there")
			script := func(text string) { w.tryRun("sh", "-c", strings.ReplaceAll(text, "THERE", there)) }
			w.commit("b.txt", "agent's\n")
			w.git("switch", "-q", "-c", "dev")
			w.git("worktree", "add", "-q", there, "main")
			script(tc.begin)
			before := w.tip("main")

			c := w.fetch().Conflict

			if tc.why == "" {
				assert.Assert(t, c == nil, "%v", c)
				return
			}
			assert.Assert(t, c != nil)
			assert.Check(t, is.Contains(c.Error(), tc.why))
			assert.Equal(t, w.tip("main"), before)
			script(tc.end)
			assert.Equal(t, w.fetch().Conflict.Kind, checkedOutElsewhere)
			w.git("-C", there, "switch", "-q", "--detach")
			assert.Equal(t, w.fetch().Commits, 1)
		})
	}
}
