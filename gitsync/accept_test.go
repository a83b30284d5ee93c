package gitsync

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// newLoop creates a fixture with a loop in its sandbox.
func newLoop(t testing.TB) *fixture {
	t.Helper()
	w := newSandbox(t)
	w.repo = w.repo.WithLoop()
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	return w
}

func (w *fixture) accept(commit string) Result {
	w.t.Helper()
	res, err := w.repo.Accept(w.t.Context(), w.sh, commit)
	assert.NilError(w.t, err)
	return res
}

// rejected asserts that a commit is not taken, and returns what the run is told.
func (w *fixture) rejected(commit string) string {
	w.t.Helper()
	before, accepted := w.tip("main"), w.accepted()
	_, err := w.repo.Accept(w.t.Context(), w.sh, commit)
	why, is := errors.AsType[*RejectedError](err)
	assert.Assert(w.t, is, "%v", err)
	assert.Equal(w.t, w.tip("main"), before)
	assert.Equal(w.t, w.accepted(), accepted)
	assert.Assert(w.t, w.unmerged() == nil, "another run repeats it")
	return why.Error()
}

func (w *fixture) accepted() string {
	w.t.Helper()
	commit, err := w.repo.Accepted()
	assert.NilError(w.t, err)
	return commit
}

func (w *fixture) unmerged() *Unmerged { return UnmergedCommits(w.repo.stateDir, "ralph-test") }

// discard resets the sandbox's branch, as a loop does after a run that was not accepted.
func (w *fixture) discard() {
	w.t.Helper()
	w.sandboxGit("reset", "-q", "--hard", w.accepted())
}

// A ref of the user without its commit, such as one that git gc has removed, is no fault of the run.
func TestAcceptInADamagedRepository(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	run := w.commit("a.txt", "one\n")
	damaged := filepath.Join(w.repo.git.CommonDir, "refs", "heads", "damaged")
	assert.NilError(t, os.WriteFile(damaged, []byte(strings.Repeat("1", len(run))+"\n"), 0o600))

	_, err := w.repo.Accept(t.Context(), w.sh, run)
	_, rejected := errors.AsType[*RejectedError](err)
	assert.Check(t, !rejected)
	assert.ErrorContains(t, err, "damaged")

	assert.NilError(t, os.Remove(damaged))
	assert.Equal(t, w.accept(run).Commits, 1)
}

func TestAcceptFastForwardsToTheCommit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.commit("a.txt", "one\n")
	run := w.commit("b.txt", "one\n")
	more := w.commit("a.txt", "of the next run\n")

	res := w.accept(run)
	assert.Equal(t, res.Commits, 2)
	assert.Equal(t, w.tip("main"), run)
	assert.Equal(t, w.accepted(), run)
	assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), more)
	w.assertClean()

	assert.Equal(t, w.accept(run).Commits, 0, "the answer was lost")
	assert.Equal(t, w.accept(w.tip("main~1")).Commits, 0)
	assert.Equal(t, w.tip("main"), run)
	assert.Equal(t, w.accept(more).Commits, 1)
	assert.Equal(t, w.tip("main"), more)
}

func TestAcceptFirstCommit(t *testing.T) {
	t.Parallel()
	w := emptyRepo(t).createSandbox()
	w.repo = w.repo.WithLoop()
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	assert.Equal(t, w.accepted(), "")
	run := w.commit("a.txt", "a\n")
	w.commit("a.txt", "b\n")
	assert.Equal(t, w.fetch().Unaccepted, "refs/ralph/ralph-test/main")
	assert.Equal(t, w.accept(run).Commits, 1)
	assert.Equal(t, w.tip("main"), run)
}

// What a killed loop has left is not on the user's branch, whatever fetches it.
func TestCommitsOfAKilledLoopStayAtTheirRef(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	run := w.commit("a.txt", "accepted\n")
	w.accept(run)
	left := w.commit("a.txt", "left\n")
	w.repo = w.repo.WithGate(nil)
	w.repo.loop = false // another command

	_, _, err := w.repo.Follow(t.Context(), w.sh, left)
	assert.NilError(t, err)
	assert.Equal(t, w.tip("main"), run)
	for range 2 {
		res := w.fetch()
		assert.Equal(t, res.Commits, 0)
		assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "not completed are not on your branch main, but at refs/ralph/ralph-test/main"))
		assert.Equal(t, w.tip("main"), run)
		assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), left)
		assert.Assert(t, w.unmerged() == nil)
	}
	assert.NilError(t, w.repo.SaveUncommitted(t.Context(), w.sh))
	assert.Equal(t, w.tip("main"), run)

	// A loop sets them aside itself; meanwhile, the user's commits wait.
	w.git("commit", "-q", "--allow-empty", "-m", "the user's")
	users := w.tip("main")
	other := w.repo
	w.repo = other.WithLoop()
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), left)
	assert.Equal(t, w.accepted(), run)
	w.discard()
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), users)
	assert.Equal(t, w.accepted(), users)
	again := w.commit("b.txt", "accepted\n")
	assert.Equal(t, w.accept(again).Commits, 1)

	// Another command begins at the user's branch, and brings what it commits itself.
	left = w.commit("a.txt", "left again\n")
	w.repo = other
	res := w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), again)
	assert.Equal(t, res.Unaccepted, "refs/ralph/ralph-test/@kept-"+left)
	assert.Equal(t, w.tip(res.Unaccepted), left)
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	own := w.commit("b.txt", "the shell's\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), own)
}

// Another command after a loop that has left nothing brings what it commits, also if it had nothing to push.
func TestCommandAfterALoopInAnUnchangedSandbox(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.accept(w.commit("a.txt", "accepted\n"))
	w.fetch()
	w.repo = w.repo.WithGate(nil)
	w.repo.loop = false

	_, done, err := w.repo.PushUnchanged(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Assert(t, done)
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	own := w.commit("b.txt", "the shell's\n")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Equal(t, w.tip("main"), own)
}

// The user can merge them.
func TestUserMergesCommitsOfAKilledLoop(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	left := w.commit("a.txt", "left\n")
	ref := w.fetch().Unaccepted
	w.git("merge", "-q", "--ff-only", ref)
	assert.Equal(t, w.fetch().Unaccepted, "")
	assert.Equal(t, w.accepted(), left)
	w.git("commit", "-q", "--allow-empty", "-m", "the user's")
	assert.Equal(t, w.push().Unaccepted, "")
	assert.Equal(t, w.accepted(), w.tip("main"))
	assert.Equal(t, w.sandboxGit("rev-parse", "main"), w.tip("main"))
}

func TestRunIsRejected(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		want  string
		spoil func(w *fixture)
	}{
		{"a submodule", `the submodule "lib", which the user's repository does not take`, func(w *fixture) {
			w.sandboxGit("update-index", "--add", "--cacheinfo", "160000,"+w.tip("main")+",lib")
			w.sandboxGit("commit", "-q", "-m", "lib")
		}},
		{"a submodule that was removed", `even if a later one removes it`, func(w *fixture) {
			w.sandboxGit("update-index", "--add", "--cacheinfo", "160000,"+w.tip("main")+",lib")
			w.sandboxGit("commit", "-q", "-m", "lib")
			w.sandboxGit("rm", "-q", "--cached", "lib")
			w.sandboxGit("commit", "-q", "-m", "without")
		}},
		{"content without a filter", `"a.bin", which the user's git encodes with the filter "enc"`, func(w *fixture) {
			w.git("config", "filter.enc.clean", "tr a-z A-Z")
			w.git("config", "filter.enc.smudge", "cat")
			w.commit(".gitattributes", "*.bin filter=enc\n")
			w.commit("a.bin", "raw\n")
		}},
		{"an invalid object", "verifying the commits of sandbox ralph-test: ", func(w *fixture) {
			w.sandboxGit("reset", "-q", "--soft", w.badCommit())
		}},
		{"a large message", "a commit message", func(w *fixture) {
			w.writeIn(w.dir, "message", strings.Repeat("long ", maxCommitSize/5+1))
			w.sandboxGit("commit", "-q", "--allow-empty", "-F", filepath.Join(w.dir, "message"))
		}},
		{"secrets", "the commits may contain secrets; none of them may, even if a later one removes them: key.pem:1: private-key", func(w *fixture) {
			bad := w.commit("key.pem", "secret\n")
			w.repo = w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
				if slices.Contains(in.Commits, bad) {
					return false, &HeldError{Sandbox: "ralph-test", Places: []string{"key.pem:1: private-key"}}
				}
				return true, nil
			})
		}},
		{"other commits of the user's", "do not amend, rebase or reset those", func(w *fixture) {
			w.sandboxGit("commit", "-q", "--amend", "-m", "rewritten")
		}},
		{"a broken git directory", "not a git directory", func(w *fixture) {
			w.repo.folder = w.gitDir
			w.run(w.dir, nil, "mv", w.gitDir, w.gitDir+".away")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			w.accept(w.commit("a.txt", "accepted\n"))
			tc.spoil(w)
			bad := strings.Repeat("a", 40)
			if tc.name != "a broken git directory" {
				bad = w.sandboxGit("rev-parse", "main")
			}
			for range 2 {
				assert.Assert(t, is.Contains(w.rejected(bad), tc.want))
			}

			if tc.name == "a broken git directory" {
				w.run(w.dir, nil, "mv", w.gitDir+".away", w.gitDir)
			}
			w.discard()
			good := w.commit("b.txt", "good\n")
			assert.Equal(t, w.accept(good).Commits, 1)
			assert.Equal(t, w.tip("main"), good)
			w.discard()
			assert.Assert(t, is.Len(w.fetch().Refused, 0))
			assert.Assert(t, AllFetched(w.repo.stateDir, "ralph-test"))
		})
	}
}

// A run that was not accepted, and has made the last commits, holds nothing back any more.
func TestNothingIsHeldOnceItWasDiscarded(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	plain := w.repo
	w.repo = w.repo.WithGate(func(context.Context, Incoming) (bool, error) { return false, nil })
	bad := w.commit("key.pem", "secret\n")
	assert.Assert(t, is.Contains(w.rejected(bad), "were held back"))
	w.discard()
	w.fetch()
	w.repo = plain
	w.fetch()
	w.assertNotStored(bad)
	assert.Assert(t, AllFetched(w.repo.stateDir, "ralph-test"))
}

func TestCommitOutsideOfTheBranchIsRejected(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.sandboxGit("switch", "-q", "-c", "side")
	side := w.commit("a.txt", "elsewhere\n")
	w.sandboxGit("switch", "-q", "main")
	for _, other := range []string{side, strings.Repeat("a", 40), "main", "--help", ""} {
		_ = w.rejected(other)
	}
	assert.Assert(t, is.Contains(w.rejected(side), "is not on branch main of the sandbox"))
}

// A run is taken although the user has to merge it, or something is in the way for now.
func TestAcceptedCommitsArriveLater(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		diverged bool
		block    func(w *fixture)
		free     func(w *fixture)
	}{
		{"both sides have commits", true, func(w *fixture) {
			w.git("commit", "-q", "--allow-empty", "-m", "the user's")
		}, func(w *fixture) {
			w.git("reset", "-q", "--keep", "main~1")
		}},
		{"a file in the way", false, func(w *fixture) { w.write("new.txt", "the user's\n") }, func(w *fixture) { w.run(w.root, nil, "rm", "new.txt") }},
		{"a merge in progress", false, func(w *fixture) { w.git("update-ref", "MERGE_HEAD", "HEAD") }, func(w *fixture) { w.git("update-ref", "-d", "MERGE_HEAD") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			tc.block(w)
			before := w.tip("main")
			run := w.commit("new.txt", "the agent's\n")
			left := w.commit("new.txt", "not accepted\n")

			res := w.accept(run)
			assert.Assert(t, res.Conflict != nil)
			assert.Equal(t, res.Conflict.Diverged(), tc.diverged)
			assert.Equal(t, w.tip(res.Conflict.Ref), run, "a hint leads to what was accepted")
			assert.Equal(t, w.tip("main"), before)
			assert.Equal(t, w.accepted(), run)
			assert.Equal(t, w.unmerged().Commit, run)
			assert.Equal(t, w.fetch().Conflict.Kind, res.Conflict.Kind)

			tc.free(w)
			res = w.fetch()
			assert.Assert(t, is.Nil(res.Conflict))
			assert.Equal(t, w.tip("main"), run)
			assert.Equal(t, w.accepted(), run)
			assert.Assert(t, w.unmerged() == nil)
			assert.Equal(t, res.Unaccepted, "refs/ralph/ralph-test/main")
			assert.Equal(t, w.tip(res.Unaccepted), left)
			w.assertClean()
		})
	}
}

// Two loops in one sandbox commit to the same branch.
func TestAcceptTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	first := w.commit("a.txt", "the first's\n")
	second := w.commit("b.txt", "the second's\n")
	var done sync.WaitGroup
	for _, commit := range []string{first, second} {
		done.Go(func() {
			_, err := w.repo.Accept(t.Context(), w.sh, commit)
			assert.Check(t, err)
		})
	}
	done.Wait()
	assert.Equal(t, w.tip("main"), second)
	assert.Equal(t, w.accepted(), second)
	w.assertClean()
}

// After a loop beside a shell, what the shell commits goes to the user's branch again, unless the loop has left
// something.
func TestEndOfALoopBesideAnotherCommand(t *testing.T) {
	t.Parallel()
	for _, accepted := range []bool{true, false} {
		w := newLoop(t)
		if run := w.commit("a.txt", "the loop's\n"); accepted {
			w.accept(run)
		}
		w.fetch()
		assert.NilError(t, w.repo.EndLoop(t.Context()))
		before, own := w.tip("main"), w.commit("b.txt", "the shell's\n")
		w.fetch()
		if accepted {
			before = own
		}
		assert.Equal(t, w.tip("main"), before)
	}
}

// What an attempt has left has a name of its own, which another branch cannot take.
func TestAttemptsAreNamed(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.sandboxGit("branch", "attempts/fix-it/1")
	left := w.commit("a.txt", "left\n")
	w.sandboxGit("branch", "ralph-attempts/fix-it/1")
	w.discard()
	res := w.fetch()
	w.sandboxGit("update-ref", "refs/ralph/refused/fix-it/2", left)
	only, err := w.repo.OnlyRefused(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.DeepEqual(t, only, []string{"refs/ralph/refused/fix-it/2"})
	assert.Equal(t, res.Others["refs/heads/ralph-attempts/fix-it/1"], "refs/ralph/ralph-test/attempts/fix-it/1")
	assert.Equal(t, w.tip("refs/ralph/ralph-test/attempts/fix-it/1"), left)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), `Attempt "fix-it/1" is at refs/ralph/ralph-test/attempts/fix-it/1`))
	assert.Assert(t, is.Contains(res.Others["refs/heads/attempts/fix-it/1"], "/@renamed-"))
}

// What an attempt has left may contain secrets: only that is held back, also from a command without a scan.
func TestAttemptHoldsNothingElseBack(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	plain := w.repo
	left := w.commit("key.pem", "secret\n")
	w.sandboxGit("branch", "ralph-attempts/fix-it/1")
	w.discard()
	w.repo = w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) { return !slices.Contains(in.Commits, left), nil })

	good := w.commit("b.txt", "good\n")
	assert.Equal(t, w.accept(good).Commits, 1)
	for range 2 {
		assert.Assert(t, is.Contains(w.fetch().Refused["refs/heads/ralph-attempts/fix-it/1"], "were held back"))
	}
	w.repo = plain
	assert.Assert(t, is.Len(w.fetch().Refused, 1))
	w.assertNotStored(left)
	next := w.commit("c.txt", "good\n")
	w.accept(next)
	assert.Equal(t, w.tip("main"), next)
}

// A commit that was taken, but is not on the user's branch yet, has to stay.
func TestRunThatDropsATakenCommitIsRejected(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	before := w.tip("main")
	w.write("a.txt", "the user's\n")
	taken := w.commit("a.txt", "the agent's\n")
	assert.Assert(t, w.accept(taken).Conflict != nil)
	w.run(w.root, nil, "rm", "a.txt")

	w.sandboxGit("reset", "-q", "--hard", before)
	_, err := w.repo.Accept(t.Context(), w.sh, w.commit("b.txt", "without it\n"))
	assert.ErrorContains(t, err, "of an earlier run is no longer on branch main")
	_, rejected := errors.AsType[*RejectedError](err)
	assert.Assert(t, rejected)
	assert.Equal(t, w.tip("main"), before)
	assert.Equal(t, w.accepted(), taken)
	w.sandboxGit("reset", "-q", "--hard", before)
	_, err = w.repo.Accept(t.Context(), w.sh, before)
	assert.ErrorContains(t, err, "of an earlier run is no longer on branch main")
	w.sandboxGit("reset", "-q", "--hard", taken)
	assert.Equal(t, w.accept(w.commit("b.txt", "on it\n")).Commits, 2)
}
