package gitsync

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// badCommit creates a commit with an invalid tree.
func (w *fixture) badCommit() string {
	w.t.Helper()
	tree := w.runEnv(w.root, strings.NewReader("100644 blob "+w.sandboxGit("rev-parse", "HEAD:a.txt")+"\t.git\n"), w.sandboxEnv(), "git", "mktree")
	return w.sandboxGit("commit-tree", "-m", "bad", "-p", "HEAD", tree)
}

// treeBomb creates a commit with hundreds of thousands of files, of a few trees, on top of a parent, and
// one without them on top of it.
func (w *fixture) treeBomb(parent string) string {
	w.t.Helper()
	make := func(entry string) string {
		var list strings.Builder
		for _, c := range "abcdefghijklm" {
			_, _ = fmt.Fprintf(&list, "%s\t%s\n", entry, strings.Repeat(string(c), 200))
		}
		return w.runEnv(w.root, strings.NewReader(list.String()), w.sandboxEnv(), "git", "mktree")
	}
	tree := make("100644 blob " + w.sandboxGit("rev-parse", "HEAD:a.txt"))
	for range 4 {
		tree = make("040000 tree " + tree)
	}
	bomb := w.sandboxGit("commit-tree", "-m", "bomb", "-p", parent, tree)
	return w.sandboxGit("commit-tree", "-m", "as before", "-p", bomb, parent+"^{tree}")
}

// The ref is reported once.
func TestInvalidRefIsSkipped(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		breakIt    func(w *fixture, branch string)
	}{
		{"an invalid tree", "git unpack-objects: ", func(w *fixture, branch string) {
			w.sandboxGit("branch", "-f", branch, w.badCommit())
		}},
		{"too many files", "names of files of 256 MiB: at most 256 MiB are fetched", func(w *fixture, branch string) {
			w.sandboxGit("branch", "-f", branch, w.treeBomb(branch))
		}},
		{"a large message", "a commit message of 2 MiB: at most 1 MiB are fetched", func(w *fixture, branch string) {
			id := w.runEnv(w.root, strings.NewReader(strings.Repeat("message\n", 1<<18)), w.sandboxEnv(), "git", "commit-tree", "-p", branch, branch+"^{tree}")
			w.sandboxGit("branch", "-f", branch, id)
		}},
		{"a missing file", "verifying the commits", func(w *fixture, branch string) {
			id := w.sandboxGit("rev-parse", branch+":"+branch+".txt")
			assert.NilError(w.t, os.Remove(filepath.Join(w.gitDir, "objects", id[:2], id[2:])))
		}},
		{"a missing commit", "is missing", func(w *fixture, branch string) {
			id := w.sandboxGit("rev-parse", branch)
			assert.NilError(w.t, os.Remove(filepath.Join(w.gitDir, "objects", id[:2], id[2:])))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newSandbox(t)
			for _, branch := range []string{"bad", "fine"} {
				w.sandboxGit("switch", "-q", "-c", branch, "main")
				w.commit(branch+".txt", branch+"\n")
			}
			w.sandboxGit("switch", "-q", "main")
			tip := w.commit("a.txt", "agent's\n")
			tc.breakIt(w, "bad")
			res := w.fetch()
			assert.Equal(t, res.Commits, 1)
			assert.Equal(t, w.tip("main"), tip)
			assert.Equal(t, w.tip("refs/ralph/ralph-test/fine"), w.sandboxGit("rev-parse", "fine"))
			assert.Assert(t, is.Len(res.Refused, 1))
			assert.Assert(t, is.Contains(res.Refused["refs/heads/bad"], tc.want))
			assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), `Warning: "refs/heads/bad" of the sandbox was not fetched: `))
			w.git("fsck", "--strict", "--no-dangling")

			// It is reported once, and the user's branch is fast-forwarded.
			tip = w.commit("a.txt", "again\n")
			_, _, err := w.repo.Follow(t.Context(), w.sh, tip)
			assert.NilError(t, err)
			assert.Equal(t, w.tip("main"), tip)
			assert.Assert(t, is.Len(w.fetch().Notes(), 0))

			w.sandboxGit("update-ref", "-d", "refs/heads/bad")
			w.sandboxGit("branch", "bad", "main")
			assert.Equal(t, w.fetch().Others["refs/heads/bad"], "refs/ralph/ralph-test/bad")
			w.assertClean()
		})
	}
}

// The agent has the terminal meanwhile, so the next sync reports the ref, even that of
// another command, and only once.
func TestInvalidRefIsReportedAfterFollow(t *testing.T) {
	w := newSandbox(t)
	w.sandboxGit("branch", "bad", w.badCommit())
	const warning = `Warning: "refs/heads/bad" of the sandbox was not fetched: `
	_, _, err := w.repo.Follow(t.Context(), w.sh, "")
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(strings.Join(w.fetch().Notes(), "\n"), warning))
	assert.Assert(t, is.Len(w.fetch().Notes(), 0))

	w.sandboxGit("branch", "-f", "bad", w.runEnv(w.root, nil, w.sandboxEnv(), "git", "commit-tree", "-m", "worse", "-p", "bad", "bad^{tree}"))
	_, _, err = w.repo.Follow(t.Context(), w.sh, "")
	assert.NilError(t, err)
	res, err := w.repo.Push(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), warning))
	assert.Assert(t, is.Len(w.fetch().Notes(), 0))
}

// It is an error, but other refs are fetched.
func TestInvalidCommitOnTheUsersBranch(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.sandboxGit("branch", "fine", w.commit("a.txt", "agent's\n"))
	w.sandboxGit("update-ref", "refs/heads/main", w.badCommit())
	assert.NilError(t, w.repo.MarkDirty(t.Context()))
	_, err := w.repo.Fetch(t.Context(), w.sh, true)
	assert.ErrorContains(t, err, "verifying the commits")
	assert.Equal(t, w.tip("refs/ralph/ralph-test/fine"), w.sandboxGit("rev-parse", "fine"))
	assert.Assert(t, !Saved(w.repo.stateDir, "ralph-test"))
}

func TestObjectsAreStoredPackedOrLoose(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	for i := range unpackLimit {
		w.writeInside("many/"+strings.Repeat("x", i+1), strings.Repeat("y", i))
	}
	w.sandboxGit("add", "many")
	w.sandboxGit("commit", "-q", "-m", "many")
	assert.Equal(t, w.fetch().Commits, 1)
	assert.Assert(t, is.Contains(w.git("count-objects", "-v"), "packs: 1"))
	w.commit("a.txt", "one\n")
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
	w.git("fsck", "--strict", "--no-dangling")
	left, err := filepath.Glob(filepath.Join(w.root, ".git", "objects", "tmp_objdir-*"))
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}
