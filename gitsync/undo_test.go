package gitsync

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// undo takes the commits of a loop back, whose runs had these at their ends.
func (w *fixture) undo(runs ...string) *Undo {
	w.t.Helper()
	u, err := w.repo.PlanUndo(w.t.Context(), "loop", runs)
	assert.NilError(w.t, err)
	assert.NilError(w.t, w.repo.Undo(w.t.Context(), u))
	return u
}

// The sandbox follows with the next push, and new commits are fetched as before.
func TestUndo(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"a loop is next", "another command is next", "a loop was killed before"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			before := w.tip("main")
			one := w.commit("a.txt", "one\n")
			w.accept(one)
			w.commit("new/file.txt", "two\n")
			two := w.commit("a.txt", "two\n")
			w.accept(two)
			left := ""
			if kind == "a loop was killed before" {
				left = w.commit("a.txt", "left\n")
			} else {
				w.fetch()
			}
			w.write("b.txt", "the user's\n")
			w.write("untracked.txt", "the user's\n")

			u := w.undo(one, two)
			assert.DeepEqual(t, u, &Undo{Branch: "main", From: two, To: before, Commits: 3, Ref: "refs/ralph/ralph-test/@undone/loop"})
			assert.Equal(t, w.tip("main"), before)
			assert.Equal(t, w.tip(u.Ref), two)
			assert.Equal(t, w.git("status", "--porcelain"), " M b.txt\n?? untracked.txt")
			assert.Equal(t, w.read("a.txt"), "a\n")
			assert.Equal(t, w.read("b.txt"), "the user's\n")

			if kind == "another command is next" {
				w.repo.loop = false
			}
			res := w.push()
			assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), before)
			assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
			if left != "" {
				assert.Equal(t, w.tip(res.Unaccepted), left)
			}
			assert.NilError(t, w.repo.MarkDirty(t.Context()))
			again := w.commit("a.txt", "again\n")
			if w.repo.loop {
				assert.Equal(t, w.accept(again).Commits, 1)
			} else {
				assert.Equal(t, w.fetch().Commits, 1)
			}
			assert.Equal(t, w.tip("main"), again)
			assert.Assert(t, w.unmerged() == nil)
		})
	}
}

// A resumed loop has the commits of its second part taken back under another name.
func TestUndoTwice(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	one := w.commit("a.txt", "one\n")
	w.accept(one)
	w.undo(one)
	w.push()
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	two := w.commit("a.txt", "two\n")
	w.accept(two)
	u := w.undo(one, two)
	assert.Equal(t, u.Ref, "refs/ralph/ralph-test/@undone/loop-2")
	assert.Equal(t, u.Commits, 1)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@undone/loop"), one)

	_, err := w.repo.PlanUndo(t.Context(), "loop", []string{one, two})
	assert.ErrorContains(t, err, "your branch main has no commits of loop loop")
}

func TestUndoBelowOtherCommits(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	first := w.tip("main")
	one := w.commit("a.txt", "one\n")
	w.accept(one)
	w.write("b.txt", "the user's\n")
	w.git("commit", "-q", "-am", "the user's")
	users := w.tip("main")
	w.push()
	two := w.commit("a.txt", "two\n")
	w.accept(two)

	_, err := w.repo.PlanUndo(t.Context(), "loop", []string{one, two})
	assert.Error(t, err, "your branch main has other commits after those of loop loop")
	revert := "git revert " + users[:10] + ".." + two[:10] + " && git revert " + first[:10] + ".." + one[:10]
	assert.DeepEqual(t, hint.Of(err), []string{`revert those of the loop with "` + revert + `"`})
	w.run(w.root, nil, "sh", "-c", strings.ReplaceAll(revert, "revert ", "revert --no-edit "))
	assert.Equal(t, w.read("a.txt"), "a\n")
	assert.Equal(t, w.read("b.txt"), "the user's\n")
	assert.Equal(t, w.git("log", "-1", "--format=%s"), `Revert "agent: a.txt"`)
}

// Commits are taken back of which the reflog says that a sandbox has made them, and no others that a log names.
func TestUndoDoesNotTrustTheLog(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.git("commit", "-q", "--allow-empty", "-m", "the user's")
	_, err := w.repo.PlanUndo(t.Context(), "loop", []string{w.tip("main"), w.tip("main~"), "HEAD", "--output=x"})
	assert.ErrorContains(t, err, "no commits of loop")
}

func TestUndoKeepsTheUsersFiles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, file, ignored, message string }{
		{name: "changed", file: "a.txt", message: `your "a.txt" would be overwritten: nothing was taken back`},
		{name: "untracked", file: "b.txt", message: `your "b.txt" would be overwritten: nothing was taken back`},
		{name: "ignored", file: "b.txt", ignored: "/b.txt\n", message: `your "b.txt" would be overwritten: nothing was taken back`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			w.sandboxGit("rm", "-q", "b.txt")
			one := w.commit("a.txt", "one\n")
			w.accept(one)
			w.write(test.file, "the user's\n")
			w.write(".git/info/exclude", test.ignored)
			u, err := w.repo.PlanUndo(t.Context(), "loop", []string{one})
			assert.NilError(t, err)
			assert.Error(t, w.repo.Undo(t.Context(), u), test.message)
			assert.Equal(t, w.tip("main"), one)
			assert.Equal(t, w.read(test.file), "the user's\n")
			assert.Equal(t, w.git("for-each-ref", u.Ref), "")
		})
	}
}

// Without a sandbox, nothing is known of one afterwards either.
func TestUndoAfterTheSandboxWasRemoved(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	before := w.tip("main")
	one := w.commit("a.txt", "one\n")
	w.accept(one)
	assert.NilError(t, Forget(w.repo.stateDir, "ralph-test"))
	w.undo(one)
	assert.Equal(t, w.tip("main"), before)
	w.assertClean()
	assert.Assert(t, !Known(w.repo.stateDir, "ralph-test"))
}

// The next command completes what a killed one has begun.
func TestInterruptedUndo(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		w := newLoop(t)
		before := w.tip("main")
		one := w.commit("a.txt", "one\n")
		w.accept(one)
		w.fetch()
		st, err := w.repo.readState()
		assert.NilError(t, err)
		st.Pending = &pending{From: one, To: before, Token: "x", Undo: true}
		assert.NilError(t, w.repo.save(st))
		w.write(".git/index.lock", "docker-ralph x")
		if moved {
			w.git("update-ref", "refs/heads/main", before)
		}
		w.repo.loop = false
		w.push()
		w.assertClean()
		want := one
		if moved {
			want = before
		}
		assert.Equal(t, w.tip("main"), want)
		assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), want)
		assert.Assert(t, is.Equal(w.unmerged() == nil, true))
	}
}
