package gitsync

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

func TestFastForward(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "", "the sandbox begins clean")
	w.commit("a.txt", "changed\n")
	w.sandboxGit("rm", "-q", "b.txt")
	w.sandboxGit("commit", "-q", "-m", "agent: without b")
	tip := w.commit("new/d.txt", "d\n")
	res := w.fetch()
	assert.Equal(t, res.Commits, 3)
	assert.Assert(t, is.Nil(res.Conflict))
	assert.Equal(t, w.tip("main"), tip)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), tip)
	w.assertClean()
	w.git("fsck", "--strict", "--no-dangling")
	assert.Assert(t, is.Contains(w.git("reflog", "-1", "main"), "fast-forward from the sandbox ralph-test"))

	res = w.fetch()
	assert.Equal(t, res.Commits, 0)
	assert.DeepEqual(t, res.Notes(), []string(nil))
	assert.Assert(t, !Saved(w.repo.stateDir, "ralph-test"), "files can be only there")
	assert.NilError(t, w.repo.SetReleased(t.Context(), true))
	assert.Assert(t, Saved(w.repo.stateDir, "ralph-test"))
}

func TestFirstCommit(t *testing.T) {
	t.Parallel()
	w := emptyRepo(t)
	w.write("staged.txt", "the user's\n")
	w.git("add", "staged.txt")
	w.createSandbox()
	tip := w.commit("a.txt", "a\n")
	res := w.fetch()
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	assert.Equal(t, w.git("status", "--porcelain"), "A  staged.txt")
}

func TestFastForwardKeepsStagedChanges(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("stashed.txt", "s\n")
	w.git("add", "-A")
	w.git("stash", "-q")
	w.git("tag", "v1")
	w.git("branch", "other")
	w.git("worktree", "add", "-q", "-b", "side", filepath.Join(w.dir, "side"))
	w.write("staged.txt", "staged\n")
	w.write("a.txt", "staged a\n")
	w.git("add", "staged.txt", "a.txt")
	w.write("a.txt", "not staged a\n")
	w.write("untracked.txt", "u\n")
	before := w.git("for-each-ref", "refs/tags", "refs/stash", "refs/heads/other", "refs/heads/side")
	staged := w.git("diff", "--cached")
	w.createSandbox()
	w.write("b.txt", "same\n")
	w.writeInside("b.txt", "same\n")
	w.sandboxGit("add", "b.txt")
	w.commit("dir/c.txt", "agent's\n")
	res := w.fetch()
	assert.Assert(t, is.Nil(res.Conflict))
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.git("for-each-ref", "refs/tags", "refs/stash", "refs/heads/other", "refs/heads/side"), before)
	assert.Equal(t, w.git("diff", "--cached"), staged)
	assert.Equal(t, w.git("status", "--porcelain"), "MM a.txt\nA  staged.txt\n?? untracked.txt")
	assert.Equal(t, w.git("stash", "list", "--format=%gd"), "stash@{0}")
	assert.Equal(t, w.run(filepath.Join(w.dir, "side"), nil, "git", "status", "--porcelain"), "")

	// What both have changed stays the user's.
	w.commit("a.txt", "agent's a\n")
	assert.Equal(t, fetchConflict(t, w, fileInTheWay).Detail, "a.txt")
	assert.Equal(t, w.git("show", ":a.txt"), "staged a")
	assert.Equal(t, w.read("a.txt")+w.read("dir/c.txt"), "not staged a\nagent's\n")
}

// fetchConflict asserts that the user's branch stays and the sandbox's commit was fetched.
func fetchConflict(t *testing.T, w *fixture, kind Kind) *Conflict {
	t.Helper()
	before, _ := w.repo.git.Resolve(t.Context(), "main")
	tip := w.sandboxGit("rev-parse", "main")
	res := w.fetch()
	assert.Assert(t, res.Conflict != nil, "no conflict")
	assert.Equal(t, res.Conflict.Kind, kind, res.Conflict.Error())
	after, _ := w.repo.git.Resolve(t.Context(), "main")
	assert.Equal(t, after, before)
	assert.Equal(t, w.tip(res.Conflict.Ref), tip)
	assert.Assert(t, is.Contains(res.Conflict.Error(), res.Conflict.Ref))
	return res.Conflict
}

func TestDivergedBranches(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	c := fetchConflict(t, w, diverged)
	assert.Assert(t, is.Contains(c.Error(), "your branch and the sandbox's have diverged: your branch main was not fast-forwarded, the sandbox's commits are at refs/ralph/ralph-test/main"))
	assert.Equal(t, c.Merged, "refs/ralph/ralph-test/@merged")

	_, err := w.repo.Push(t.Context(), w.sh)
	_, ok := errors.AsType[*Conflict](err)
	assert.Assert(t, ok, "%v", err)

	// What the message says does it.
	w.git("reset", "-q", "--keep", c.Merged)
	w.assertClean()
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), w.tip("main"))
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	tip := w.commit("a.txt", "again\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()
}

func TestDivergedBranchesWithAConflict(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.write("a.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: a", "a.txt")
	c := fetchConflict(t, w, diverged)
	assert.Equal(t, c.Merged, "")
	assert.Assert(t, is.Contains(c.Hint(), `"git merge refs/ralph/ralph-test/main"`))
}

func TestMovedUserBranch(t *testing.T) {
	t.Parallel()
	t.Run("back", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		w.fetch()
		w.git("reset", "-q", "--hard", "HEAD~")
		w.commit("a.txt", "two\n")
		c := fetchConflict(t, w, movedBack)
		w.git("reset", "-q", "--keep", c.Ref)
		w.assertClean()
		w.push()
	})
	t.Run("back, with nothing new", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		w.fetch()
		w.git("reset", "-q", "--hard", "HEAD~")
		assert.Equal(t, w.fetch().Commits, 0)
		w.push()
		assert.Equal(t, w.sandboxGit("rev-parse", "main"), w.tip("main"))
		assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	})
	t.Run("to another branch and back", func(t *testing.T) {
		w := newSandbox(t)
		tip := w.commit("a.txt", "one\n")
		w.git("switch", "-q", "-c", "other")
		w.write("b.txt", "user's\n")
		res := w.fetch()
		assert.Assert(t, is.Nil(res.Conflict))
		assert.Equal(t, res.Commits, 1)
		assert.Equal(t, w.tip("main"), tip)
		assert.Equal(t, w.git("status", "--porcelain"), " M b.txt", "no file is touched")
		w.git("stash", "-q")
		w.git("switch", "-q", "main")
		w.assertClean()
		w.push()
	})
	t.Run("to no branch", func(t *testing.T) {
		w := newSandbox(t)
		tip := w.commit("a.txt", "one\n")
		w.git("checkout", "-q", "--detach")
		assert.Equal(t, w.fetch().Commits, 1)
		assert.Equal(t, w.tip("main"), tip)
		w.assertClean()
	})
	t.Run("to another worktree", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		w.git("switch", "-q", "-c", "other")
		w.git("worktree", "add", "-q", filepath.Join(w.dir, "there"), "main")
		c := fetchConflict(t, w, checkedOutElsewhere)
		assert.Assert(t, is.Contains(c.Error(), "your branch is checked out in another worktree"))
	})
	t.Run("the branch is renamed", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		w.git("branch", "-m", "main", "renamed")
		_ = fetchConflict(t, w, branchGone)
	})
	t.Run("the branch is deleted", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		w.git("update-ref", "-d", "refs/heads/main")
		_ = fetchConflict(t, w, branchGone)
	})
	t.Run("a merge begins", func(t *testing.T) {
		w := newSandbox(t)
		w.commit("a.txt", "one\n")
		marker := filepath.Join(w.root, ".git", "MERGE_HEAD")
		assert.NilError(t, os.WriteFile(marker, []byte(w.tip("main")+"\n"), 0o644))
		c := fetchConflict(t, w, operation)
		assert.Assert(t, c.Transient())
		assert.NilError(t, os.Remove(marker))
		assert.Equal(t, w.fetch().Commits, 1)
		w.assertClean()
	})
}

func TestSandboxRewritesHistory(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "one\n")
	w.fetch()
	w.sandboxGit("commit", "-q", "--amend", "-m", "another message")
	c := fetchConflict(t, w, rewritten)
	w.git("reset", "-q", "--keep", c.Ref)
	w.assertClean()
	w.push()
	w.commit("b.txt", "two\n")
	assert.Equal(t, w.fetch().Commits, 1)
}

func TestOtherRefsAreFetched(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.sandboxGit("switch", "-q", "-c", "feature/x")
	feature := w.commit("f.txt", "f\n")
	w.sandboxGit("switch", "-q", "main")
	w.writeInside("a.txt", "stashed\n")
	w.sandboxGit("stash", "-q")
	stash := w.sandboxGit("rev-parse", "refs/stash")
	w.sandboxGit("checkout", "-q", "--detach")
	loose := w.commit("g.txt", "g\n")
	res := w.fetch()
	assert.Assert(t, is.Nil(res.Conflict))
	assert.DeepEqual(t, res.Others, map[string]string{
		"HEAD": "refs/ralph/ralph-test/@head", "refs/stash": "refs/ralph/ralph-test/@stash", "refs/heads/feature/x": "refs/ralph/ralph-test/feature/x",
	})
	assert.Equal(t, w.tip("refs/ralph/ralph-test/feature/x"), feature)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@stash"), stash)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@head"), loose)

	// A name makes room for another, and what had it is kept.
	w.sandboxGit("switch", "-q", "main")
	w.sandboxGit("branch", "-D", "feature/x")
	w.sandboxGit("branch", "feature", loose)
	w.fetch()
	assert.Equal(t, w.tip("refs/ralph/ralph-test/feature"), loose)
	assert.Assert(t, is.Contains(w.git("for-each-ref", "--format=%(objectname)", "refs/ralph/ralph-test/@kept-*"), feature))
}

func TestPushOfUserCommits(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.git("branch", "gone")
	w.git("branch", "moved")
	w.createSandbox()
	w.commit("a.txt", "agent's\n")
	w.fetch()
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	w.git("branch", "-f", "moved")
	w.git("branch", "-D", "gone")
	w.git("tag", "v2")
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), w.tip("main"))
	assert.Equal(t, w.sandboxGit("rev-parse", "moved"), w.tip("main"))
	assert.Equal(t, w.sandboxGit("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"), "refs/heads/main\nrefs/heads/moved\nrefs/tags/v2")
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	w.commit("c.txt", "agent's\n")
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
}

func TestPushOfASwitchedBranch(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.fetch()
	w.git("switch", "-q", "-c", "other", "HEAD~")
	w.push()
	assert.Equal(t, w.sandboxGit("branch", "--show-current"), "other")
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	tip := w.commit("b.txt", "agent's\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("other"), tip)
	w.assertClean()
	w.git("switch", "-q", "main")
	w.push()
	assert.Equal(t, w.sandboxGit("branch", "--show-current"), "main")
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
}

// What the user has committed comes to the loop's branch, whatever is checked out.
func TestPushAheadStaysOnTheBranch(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-c", "other"}, {"--detach"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			w.git("commit", "-q", "--allow-empty", "-m", "the user's")
			w.git(append([]string{"switch", "-q"}, args...)...)
			w.git("commit", "-q", "--allow-empty", "-m", "elsewhere")
			_, err := w.repo.PushAhead(t.Context(), w.sh)
			assert.NilError(t, err)
			assert.Equal(t, w.sandboxGit("branch", "--show-current"), "main")
			assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), w.tip("main"))
		})
	}
}

// A command works on the branch on which it was started, also if it has waited since.
func TestPushOnBranch(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-c", "other"}, {"--detach"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			w.git("commit", "-q", "--allow-empty", "-m", "the user's")
			on, err := w.repo.OnBranch(t.Context())
			assert.NilError(t, err)
			w.git(append([]string{"switch", "-q"}, args...)...)
			w.git("commit", "-q", "--allow-empty", "-m", "elsewhere")
			w.repo = on
			w.push()
			assert.Equal(t, w.sandboxGit("branch", "--show-current"), "main")
			assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), w.tip("main"))
			tip := w.commit("a.txt", "agent's\n")
			assert.Equal(t, w.fetch().Commits, 1)
			assert.Equal(t, w.tip("main"), tip)

			_, err = on.WithChanges().Push(t.Context(), w.sh)
			assert.Error(t, err, "your worktree is not on branch main any more")
		})
	}
}

func TestPushOnNoBranch(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.git("checkout", "-q", "--detach")
	for range 2 {
		_, err := w.repo.Push(t.Context(), w.sh)
		assert.ErrorIs(t, err, gitrepo.ErrDetached)
		assert.Equal(t, w.sandboxGit("branch", "--show-current"), "main")
		tip := w.commit("a.txt", w.sandboxGit("rev-parse", "HEAD"))
		assert.Equal(t, w.fetch().Commits, 1)
		assert.Equal(t, w.tip("main"), tip)
		w.git("checkout", "-q", "--detach")
	}
}

func TestPushKeepsTheAgentsStagedChanges(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.writeInside("dir/c.txt", "staged by the agent\n")
	w.sandboxGit("add", "dir/c.txt")
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	w.push()
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "M  dir/c.txt")
}

func TestLostState(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "agent's\n")
	assert.NilError(t, os.RemoveAll(w.repo.stateDir))
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()
}

// An agent may amend what it has just committed.
func TestFollowWaitsForFinalCommits(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	before := w.tip("main")
	first := w.commit("a.txt", "one\n")
	watch := func(last string) (Result, string) {
		t.Helper()
		res, tip, err := w.repo.Follow(t.Context(), w.sh, last)
		assert.NilError(t, err)
		return res, tip
	}
	_, tip := watch("")
	assert.Equal(t, tip, first)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), first, "it is safe")
	assert.Equal(t, w.tip("main"), before)

	w.sandboxGit("commit", "-q", "--amend", "-m", "better")
	_, tip = watch(tip)
	assert.Equal(t, w.tip("main"), before)
	res, tip := watch(tip)
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()

	// An earlier commit is final, if the branch still has it.
	final := w.commit("c.txt", "final\n")
	amended := w.commit("d.txt", "amended\n")
	res, _ = watch(final)
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("main"), final)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), amended)
	for _, other := range []string{before, final, "x", "--help", before[:39] + "0"} {
		res, _ = watch(other)
		assert.Equal(t, res.Commits, 0, other)
		assert.Assert(t, res.Conflict == nil, other)
		assert.Equal(t, w.tip("main"), final)
	}

	// The user has accepted the last commit.
	w.git("reset", "-q", "--hard", "refs/ralph/ralph-test/main")
	res, tip = watch(final)
	assert.Assert(t, res.Conflict == nil)
	assert.Equal(t, tip, amended)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@base"), amended)
}

// A sandbox with nothing to fetch since its last command is pushed to at once, unless it
// turns out to have changed.
func TestPushToAnUnchangedSandboxDoesNotFetch(t *testing.T) {
	t.Parallel()
	w := newRepo(t).fillSandbox()
	w.push()
	noShell := func(context.Context, string, []string, io.Reader, io.Writer) error {
		t.Error("a script was run in the sandbox")
		return nil
	}
	unchanged := func(sh Shell) bool {
		t.Helper()
		_, done, err := w.repo.PushUnchanged(t.Context(), sh)
		assert.NilError(t, err)
		return done
	}
	assert.Assert(t, unchanged(noShell), "no command has begun")

	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	assert.Assert(t, !unchanged(noShell), "a command has not ended")
	w.commit("a.txt", "agent\n")
	w.fetch()
	assert.Assert(t, unchanged(noShell))

	w.write("b.txt", "user\n")
	w.git("commit", "-q", "-a", "-m", "user")
	assert.Assert(t, unchanged(w.sh))
	assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), w.tip("main"))
	assert.Assert(t, unchanged(noShell))

	theirs := w.commit("a.txt", "outside of all commands\n")
	w.write("dir/c.txt", "user\n")
	w.git("commit", "-q", "-m", "user again", "--", "dir/c.txt")
	assert.Assert(t, !unchanged(w.sh))
	assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), theirs)

	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	w.git("checkout", "-q", "-b", "elsewhere")
	w.sandboxGit("checkout", "-q", "-b", "theirs")
	w.fetch()
	assert.Assert(t, !unchanged(noShell), "another branch is checked out")
}

func TestPushRestoresADeletedBase(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "changed\n")
	w.fetch()
	w.git("update-ref", "-d", "refs/ralph/ralph-test/@base")
	_, done, err := w.repo.PushUnchanged(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Assert(t, done)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/@base"), tip)
}

// A file that was written without a change is no change of the agent.
func TestPushOverTouchedFiles(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.repo = w.repo.WithChanges()
	w.inSandbox("echo agent > b.txt; touch -d @1 a.txt dir/c.txt")
	w.write("a.txt", "committed\n")
	w.git("commit", "-q", "-a", "-m", "user")
	w.write("dir/c.txt", "not committed\n")
	w.start()
	assert.Equal(t, w.inSandbox("cat a.txt b.txt dir/c.txt; git stash list"), "committed\nagent\nnot committed")
	w.inSandbox("touch -d @1 a.txt dir/c.txt")
	w.write("a.txt", "not committed\n")
	w.git("checkout", "-q", "dir/c.txt")
	w.start()
	assert.Equal(t, w.inSandbox("cat a.txt b.txt dir/c.txt; git stash list"), "not committed\nagent\nc")
}

// What the agent has not committed becomes a stash if a change of the user is to the same file.
func TestPushOfChangesOverTheAgents(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.repo = w.repo.WithChanges()
	w.inSandbox("echo agent > a.txt; echo agent > new; git add new")
	w.write("a.txt", "user\n")
	w.write("new", "user\n")
	w.start()
	assert.Equal(t, w.inSandbox("cat a.txt new; git status --porcelain; git show stash:a.txt stash:new"), "user\nuser\nagent\nagent")
}
