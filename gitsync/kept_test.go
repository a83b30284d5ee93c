package gitsync

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Only the latest stash has a ref; the others are in its reflog.
func TestEveryStashIsFetched(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	stash := func(content string) string {
		w.writeInside("a.txt", content)
		w.sandboxGit("stash", "-q")
		return w.sandboxGit("rev-parse", "refs/stash")
	}
	here := func(commits ...string) {
		t.Helper()
		assert.Equal(t, w.tip("refs/ralph/ralph-test/@stash"), commits[0])
		slices.Sort(commits[1:])
		older := strings.Fields(w.git("for-each-ref", "--format=%(objectname)", "refs/ralph/ralph-test/@stash-*"))
		assert.DeepEqual(t, older, commits[1:])
		w.git("fsck", "--strict", "--no-dangling")
	}
	first, second, third := stash("1\n"), stash("2\n"), stash("3\n")
	res := w.fetch()
	here(third, second, first)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "An older stash of the sandbox is at refs/ralph/ralph-test/@stash-"+first))
	assert.Equal(t, len(w.fetch().Others), 0)

	fourth := stash("4\n")
	w.fetch()
	here(fourth, third, second, first)
	w.sandboxGit("stash", "drop", "-q")
	assert.Equal(t, len(w.fetch().Kept), 0)
	here(third, third, second, first)

	// A new stash can be below an existing one.
	fifth := stash("5\n")
	w.sandboxGit("stash", "store", "-m", "again", third)
	w.fetch()
	here(third, third, second, first, fifth)
}

// recreate creates a new clone after the volumes of the sandbox were removed.
func (w *fixture) recreate() {
	w.t.Helper()
	assert.NilError(w.t, Forget(w.repo.stateDir, "ralph-test"))
	assert.NilError(w.t, errors.Join(os.RemoveAll(w.gitDir), os.RemoveAll(w.work)))
	w.fill()
	w.start()
}

// keptCommits returns the commits whose names others have.
func (w *fixture) keptCommits() []string {
	w.t.Helper()
	return strings.Fields(w.git("for-each-ref", "--format=%(objectname)", "refs/ralph/ralph-test/@kept-*"))
}

func TestCommitsOfAnEarlierSandboxAreKept(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.sandboxGit("switch", "-qc", "topic")
	topic := w.commit("topic.txt", "topic\n")
	w.sandboxGit("switch", "-q", "main")
	w.writeInside("a.txt", "stashed\n")
	w.sandboxGit("stash", "-q")
	stash := w.sandboxGit("rev-parse", "refs/stash")
	w.sandboxGit("checkout", "-q", "--detach")
	loose := w.commit("loose.txt", "loose\n")
	w.sandboxGit("switch", "-q", "main")
	w.sandboxGit("switch", "-qc", "taken")
	taken := w.commit("taken.txt", "taken\n")
	w.sandboxGit("switch", "-q", "main")
	old := w.commit("a.txt", "agent's\n")
	w.sandboxGit("checkout", "-q", "--detach", loose)
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	_ = fetchConflict(t, w, diverged)
	w.git("branch", "taken", taken)

	w.recreate()
	w.writeInside("b.txt", "stashed again\n")
	w.sandboxGit("stash", "-q")
	w.sandboxGit("branch", "topic")
	w.sandboxGit("switch", "-qc", "taken")
	w.sandboxGit("commit", "-q", "--allow-empty", "-m", "another of that name")
	w.sandboxGit("switch", "-q", "main")
	w.sandboxGit("checkout", "-q", "--detach")
	w.commit("loose.txt", "other\n")
	w.sandboxGit("checkout", "-q", "-B", "main")
	w.sandboxGit("checkout", "-q", "--detach")
	res := w.fetch()
	assert.Equal(t, res.Commits, 1)
	want := []string{old, topic, stash, loose}
	slices.Sort(want)
	assert.DeepEqual(t, w.keptCommits(), want)
	assert.Equal(t, w.tip(res.Kept["refs/ralph/ralph-test/main"]), old)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "The commits that were at refs/ralph/ralph-test/main are at refs/ralph/ralph-test/@kept-"+old))

	// What it rewrites itself is replaced as ever.
	w.sandboxGit("switch", "-q", "main")
	w.sandboxGit("commit", "-q", "--amend", "-m", "another message")
	assert.Equal(t, len(w.fetch().Kept), 0)
	assert.DeepEqual(t, w.keptCommits(), want)
}

func TestContainedCommitsAreNotKept(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	old := w.commit("a.txt", "one\n")
	w.git("switch", "-qc", "other")
	w.git("worktree", "add", "-q", filepath.Join(w.dir, "there"), "main")
	_ = fetchConflict(t, w, checkedOutElsewhere)
	w.git("worktree", "remove", filepath.Join(w.dir, "there"))
	w.git("switch", "-q", "main")
	w.git("branch", "mine", old)
	w.recreate()
	w.sandboxGit("fetch", "-q", w.root, "mine")
	w.git("branch", "-q", "-D", "mine")
	w.sandboxGit("reset", "-q", "--hard", old)
	w.commit("b.txt", "two\n")
	assert.Equal(t, len(w.fetch().Kept), 0)
	assert.Equal(t, len(w.keptCommits()), 0)
}

func TestReplacedNamesAreKept(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	first := w.commit("a.txt", "one\n")
	w.sandboxGit("branch", "x/a")
	w.sandboxGit("branch", "x/b")
	w.fetch()
	w.sandboxGit("branch", "-D", "x/a", "x/b")
	w.sandboxGit("branch", "x")
	w.fetch()
	assert.DeepEqual(t, w.keptCommits(), []string{first})
	w.sandboxGit("branch", "-D", "x")
	second := w.commit("a.txt", "two\n")
	w.sandboxGit("branch", "x/a")
	w.fetch()
	w.sandboxGit("branch", "-D", "x/a")
	w.sandboxGit("branch", "x")
	w.fetch()
	want := []string{first, second}
	slices.Sort(want)
	assert.DeepEqual(t, w.keptCommits(), want)
}

// Uncommitted changes of a run, of which the sandbox has the refs only, stay in the user's repository, whatever
// happens to them in the sandbox.
func TestLeftoversStayWithTheUser(t *testing.T) {
	t.Parallel()
	const name = "ralph-leftover/a-1234567"
	for what, lose := range map[string]func(w *fixture){
		"removed": func(w *fixture) {
			w.sandboxGit("branch", "-D", name)
			w.commit("b.txt", "two\n")
			w.fetch()
		},
		"damaged": func(w *fixture) {
			assert.NilError(w.t, os.RemoveAll(filepath.Join(w.gitDir, "refs", "heads", "ralph-leftover")))
			w.corrupt("index")
			_, _, err := w.repo.Repair(w.t.Context(), w.sh)
			assert.NilError(w.t, err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			commit := w.commit("a.txt", "one\n")
			w.sandboxGit("branch", name)
			w.fetch()
			lose(w)
			assert.Equal(t, w.git("for-each-ref", "--format=%(objectname)", w.repo.Prefix()+"/"+name), commit)
		})
	}
}
