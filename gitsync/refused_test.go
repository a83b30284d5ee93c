package gitsync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// badCommit creates a commit with an invalid tree.
func (w *world) badCommit() string {
	w.t.Helper()
	tree := w.runEnv(w.root, strings.NewReader("100644 blob "+w.agent("rev-parse", "HEAD:a.txt")+"\t.git\n"), w.inside(), "git", "mktree")
	return w.agent("commit-tree", "-m", "bad", "-p", "HEAD", tree)
}

// The ref is reported once.
func TestInvalidRefDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		breakIt    func(w *world, branch string)
	}{
		{"an invalid tree", "git unpack-objects: ", func(w *world, branch string) {
			w.agent("branch", "-f", branch, w.badCommit())
		}},
		{"a missing file", "verifying the commits", func(w *world, branch string) {
			id := w.agent("rev-parse", branch+":"+branch+".txt")
			assert.NilError(w.t, os.Remove(filepath.Join(w.own, "objects", id[:2], id[2:])))
		}},
		{"a missing commit", "is missing", func(w *world, branch string) {
			id := w.agent("rev-parse", branch)
			assert.NilError(w.t, os.Remove(filepath.Join(w.own, "objects", id[:2], id[2:])))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := sandboxed(t)
			for _, branch := range []string{"bad", "fine"} {
				w.agent("switch", "-q", "-c", branch, "main")
				w.commit(branch+".txt", branch+"\n")
			}
			w.agent("switch", "-q", "main")
			tip := w.commit("a.txt", "agent's\n")
			tc.breakIt(w, "bad")
			res := w.out()
			assert.Equal(t, res.Commits, 1)
			assert.Equal(t, w.tip("main"), tip)
			assert.Equal(t, w.tip("refs/ralph/ralph-test/fine"), w.agent("rev-parse", "fine"))
			assert.Assert(t, is.Len(res.Refused, 1))
			assert.Assert(t, is.Contains(res.Refused["refs/heads/bad"], tc.want))
			assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), `Warning: "refs/heads/bad" of the sandbox was not fetched: `))
			w.git("fsck", "--strict", "--no-dangling")

			// It is told once, and the user's branch goes on.
			tip = w.commit("a.txt", "again\n")
			_, _, err := w.repo.Follow(t.Context(), w.sh, "", true)
			assert.NilError(t, err)
			assert.Equal(t, w.tip("main"), tip)
			assert.Assert(t, is.Len(w.out().Notes(), 0))

			w.agent("update-ref", "-d", "refs/heads/bad")
			w.agent("branch", "bad", "main")
			assert.Equal(t, w.out().Others["refs/heads/bad"], "refs/ralph/ralph-test/bad")
			w.clean()
		})
	}
}

// The agent has the terminal meanwhile, so the next sync reports the ref, even that of
// another command, and only once.
func TestRefRefusedWhileFollowingIsReported(t *testing.T) {
	w := sandboxed(t)
	w.agent("branch", "bad", w.badCommit())
	const warning = `Warning: "refs/heads/bad" of the sandbox was not fetched: `
	_, _, err := w.repo.Follow(t.Context(), w.sh, "", true)
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(strings.Join(w.out().Notes(), "\n"), warning))
	assert.Assert(t, is.Len(w.out().Notes(), 0))

	w.agent("branch", "-f", "bad", w.runEnv(w.root, nil, w.inside(), "git", "commit-tree", "-m", "worse", "-p", "bad", "bad^{tree}"))
	_, _, err = w.repo.Follow(t.Context(), w.sh, "", true)
	assert.NilError(t, err)
	res, err := w.repo.Push(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), warning))
	assert.Assert(t, is.Len(w.out().Notes(), 0))
}

// It is an error, but other refs are fetched.
func TestInvalidCommitOnTheUsersBranch(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	w.agent("branch", "fine", w.commit("a.txt", "agent's\n"))
	w.agent("update-ref", "refs/heads/main", w.badCommit())
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	_, err := w.repo.Fetch(t.Context(), w.sh, true)
	assert.ErrorContains(t, err, "verifying the commits")
	assert.Equal(t, w.tip("refs/ralph/ralph-test/fine"), w.agent("rev-parse", "fine"))
	assert.Assert(t, !Saved(w.repo.stateDir, "ralph-test"))
}

func TestObjectsAreStoredPackedOrLoose(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	for i := range unpackLimit {
		w.write("many/"+strings.Repeat("x", i+1), strings.Repeat("y", i))
	}
	w.agent("add", "many")
	w.agent("commit", "-q", "-m", "many")
	assert.Equal(t, w.out().Commits, 1)
	assert.Assert(t, is.Contains(w.git("count-objects", "-v"), "packs: 1"))
	w.commit("a.txt", "one\n")
	assert.Equal(t, w.out().Commits, 1)
	w.clean()
	w.git("fsck", "--strict", "--no-dangling")
	left, err := filepath.Glob(filepath.Join(w.root, ".git", "objects", "tmp_objdir-*"))
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}
