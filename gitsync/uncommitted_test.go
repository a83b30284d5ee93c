package gitsync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// start starts a command in the sandbox.
func (w *fixture) start() Result {
	w.t.Helper()
	res, err := w.repo.Push(w.t.Context(), w.sh)
	assert.NilError(w.t, err)
	assert.NilError(w.t, w.repo.MarkDirty(w.t.Context()))
	return res
}

// commitAll commits everything as an agent.
func (w *fixture) commitAll(message string) {
	w.t.Helper()
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-q", "--allow-empty", "-a", "-m", message)
}

// The agent commits neither modified nor staged, deleted or untracked files of the user,
// and the user's index stays.
func TestUncommittedChangesAreNotCommitted(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("gone.txt", "g\n")
	w.write("r\"ä.txt", "r\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "second")
	w.write("a.txt", "modified\n")
	w.write("b.txt", "staged\n")
	w.git("add", "b.txt")
	w.write("b.txt", "and modified\n")
	w.write("r\"ä.txt", "modified\n")
	assert.NilError(t, os.Remove(filepath.Join(w.root, "gone.txt")))
	w.write("added.txt", "added\n")
	w.git("add", "added.txt")
	untracked := []string{".env", "new/one.txt", "new/[x]*?.txt", "sp ace", "line\nbreak", "ü", "trailing "}
	for _, name := range untracked {
		w.write(name, "user's\n")
	}
	before, staged := w.git("status", "--porcelain", "-uall"), w.git("diff", "--cached")
	w.createSandbox()
	res := w.start()
	assert.Equal(t, len(res.Uncommitted), 5+len(untracked))
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")

	w.write("dir/c.txt", "agent's\n")
	w.write("new/two.txt", "agent's\n")
	w.commitAll("agent: one")
	assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), "dir/c.txt\nnew/two.txt")
	w.write("a.txt", "modified by the agent too\n")
	w.commitAll("agent: two")
	res = w.fetch()
	assert.Equal(t, res.Commits, 2)
	assert.DeepEqual(t, res.Changed, []string{"a.txt"})
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "Files with your uncommitted changes were changed, and are not committed: a.txt"))
	assert.Equal(t, w.git("status", "--porcelain", "-uall"), before)
	assert.Equal(t, w.git("diff", "--cached"), staged)

	// Once it is committed, it is everybody's.
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "user: all")
	assert.Equal(t, len(w.start().Uncommitted), 0)
	w.write("a.txt", "agent's\n")
	w.write(".env", "agent's\n")
	w.commitAll("agent: three")
	assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), ".env\na.txt")
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
}

// The next run commits what a run has left, unless the user has changed it since, and
// what a killed run has left.
func TestUncommittedFilesOfARunBelongToTheSandbox(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		w := newRepo(t)
		w.write("user.txt", "user's\n")
		w.createSandbox()
		w.start()
		w.write("a.txt", "half done\n")
		w.write("half.txt", "half done\n")
		w.write("b.txt", "half done\n")
		if !killed {
			w.fetch()
			w.write("b.txt", "and the user's\n")
		}
		want := []string{"b.txt", "user.txt"}
		if killed {
			want = want[1:]
		}
		assert.DeepEqual(t, w.start().Uncommitted, want)
		w.commitAll("agent")
		assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), map[bool]string{false: "a.txt\nhalf.txt", true: "a.txt\nb.txt\nhalf.txt"}[killed])
		w.fetch()
		assert.Equal(t, w.git("status", "--porcelain"), map[bool]string{false: " M b.txt\n?? user.txt", true: "?? user.txt"}[killed])
	}
}

// A repository that a run creates is reported once: git would enter it after the user's
// git add.
func TestNewRepositoriesAreReported(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.start()
	plant(w)
	res := w.fetch()
	assert.DeepEqual(t, res.Repositories, []string{"inner"})
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), `Hint: remove "inner/.git" before "git add"`))
	assert.Assert(t, !w.executed())
	assert.DeepEqual(t, w.start().Uncommitted, []string{"inner/"})
	w.commitAll("agent")
	assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), ".gitattributes\n.gitmodules")
	assert.Equal(t, len(w.fetch().Repositories), 0)
	assert.NilError(t, os.RemoveAll(filepath.Join(w.root, "inner", ".git")))
	w.git("add", "-A")
	w.git("status")
	assert.Assert(t, !w.executed())
}

// Files of the user's filters stay uncommitted, too.
func TestExcludesKeepTheUsersIgnoredFiles(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write(".gitattributes", "*.bin filter=lfs\n")
	w.write("x.bin", "pointer\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "large")
	w.git("config", "filter.lfs.clean", "cat")
	w.write(".git/info/exclude", "*.log")
	w.write("user.txt", "user's\n")
	w.createSandbox()
	for range 2 {
		w.start()
		w.write("x.log", "x\n")
		w.write("x.bin", "large\n")
		w.commitAll("agent")
		assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), "")
		w.fetch()
		assert.NilError(t, os.RemoveAll(filepath.Join(w.root, "user.txt")))
	}
}

// A directory with more files than are listed is excluded as a whole.
func TestManyUntrackedFiles(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	assert.NilError(t, os.Mkdir(filepath.Join(w.root, "many"), 0o755))
	for i := range maxUntracked + 1 {
		w.write("many/"+strings.Repeat("x", 1+i%100)+string(rune('a'+i/100)), "")
	}
	w.createSandbox()
	assert.DeepEqual(t, w.start().Uncommitted, []string{"many/"})
	w.commitAll("agent")
	assert.Equal(t, w.sandboxGit("show", "--format=", "--name-only", "HEAD"), "")
}
