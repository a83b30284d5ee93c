package gitsync

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Only the latest stash has a ref; the others are in its reflog.
func TestEveryStashIsFetched(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	stash := func(content string) string {
		w.write("a.txt", content)
		w.agent("stash", "-q")
		return w.agent("rev-parse", "refs/stash")
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
	res := w.out()
	here(third, second, first)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "An older stash of the sandbox is at refs/ralph/ralph-test/@stash-"+first))
	assert.Equal(t, len(w.out().Others), 0)

	fourth := stash("4\n")
	w.out()
	here(fourth, third, second, first)
	w.agent("stash", "drop", "-q")
	assert.Equal(t, len(w.out().Kept), 0)
	here(third, third, second, first)

	// One comes that is below one that was there already.
	fifth := stash("5\n")
	w.agent("stash", "store", "-m", "again", third)
	w.out()
	here(third, third, second, first, fifth)
}

// recreate fills a new git directory after its volume was removed.
func (w *world) recreate() {
	w.t.Helper()
	assert.NilError(w.t, Forget(w.repo.stateDir, "ralph-test"))
	assert.NilError(w.t, os.RemoveAll(w.own))
	w.fill()
}

// kept returns the commits whose names others have.
func (w *world) kept() []string {
	w.t.Helper()
	return strings.Fields(w.git("for-each-ref", "--format=%(objectname)", "refs/ralph/ralph-test/@kept-*"))
}

func TestCommitsOfAnEarlierSandboxAreKept(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	w.agent("switch", "-qc", "topic")
	topic := w.commit("topic.txt", "topic\n")
	w.agent("switch", "-q", "main")
	w.write("a.txt", "stashed\n")
	w.agent("stash", "-q")
	stash := w.agent("rev-parse", "refs/stash")
	w.agent("checkout", "-q", "--detach")
	loose := w.commit("loose.txt", "loose\n")
	w.agent("switch", "-q", "main")
	w.agent("switch", "-qc", "taken")
	taken := w.commit("taken.txt", "taken\n")
	w.agent("switch", "-q", "main")
	old := w.commit("a.txt", "agent's\n")
	w.agent("checkout", "-q", "--detach", loose)
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	_ = conflicts(t, w, diverged)
	w.git("branch", "taken", taken)

	w.recreate()
	w.write("b.txt", "stashed again\n")
	w.agent("stash", "-q")
	w.agent("branch", "topic")
	w.agent("switch", "-q", "taken")
	w.agent("commit", "-q", "--allow-empty", "--amend", "-m", "rewritten")
	w.agent("switch", "-q", "main")
	w.agent("checkout", "-q", "--detach")
	w.commit("loose.txt", "other\n")
	w.agent("checkout", "-q", "-B", "main")
	w.agent("checkout", "-q", "--detach")
	res := w.out()
	assert.Equal(t, res.Commits, 1)
	want := []string{old, topic, stash, loose}
	slices.Sort(want)
	assert.DeepEqual(t, w.kept(), want)
	assert.Equal(t, w.tip(res.Kept["refs/ralph/ralph-test/main"]), old)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "The commits that were at refs/ralph/ralph-test/main are at refs/ralph/ralph-test/@kept-"+old))

	// What it rewrites itself is replaced as ever.
	w.agent("switch", "-q", "main")
	w.agent("commit", "-q", "--amend", "-m", "another message")
	assert.Equal(t, len(w.out().Kept), 0)
	assert.DeepEqual(t, w.kept(), want)
}

func TestContainedCommitsAreNotKept(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	old := w.commit("a.txt", "one\n")
	w.git("switch", "-qc", "other")
	_ = conflicts(t, w, switchedAway)
	w.git("switch", "-q", "main")
	w.recreate()
	w.agent("reset", "-q", old)
	w.commit("b.txt", "two\n")
	assert.Equal(t, len(w.out().Kept), 0)
	assert.Equal(t, len(w.kept()), 0)
}

func TestReplacedNamesAreKept(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	first := w.commit("a.txt", "one\n")
	w.agent("branch", "x/a")
	w.agent("branch", "x/b")
	w.out()
	w.agent("branch", "-D", "x/a", "x/b")
	w.agent("branch", "x")
	w.out()
	assert.DeepEqual(t, w.kept(), []string{first})
	w.agent("branch", "-D", "x")
	second := w.commit("a.txt", "two\n")
	w.agent("branch", "x/a")
	w.out()
	w.agent("branch", "-D", "x/a")
	w.agent("branch", "x")
	w.out()
	want := []string{first, second}
	slices.Sort(want)
	assert.DeepEqual(t, w.kept(), want)
}
