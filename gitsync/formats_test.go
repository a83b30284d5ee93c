package gitsync

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// assertSyncs asserts that a commit of the sandbox is fetched and one of the user pushed.
func assertSyncs(t *testing.T, w *fixture) {
	t.Helper()
	tip := w.commit("a.txt", "agent's\n")
	res := w.fetch()
	assert.Assert(t, is.Nil(res.Conflict))
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("HEAD"), tip)
	w.assertClean()
	w.write("user.txt", "user's\n")
	w.git("add", "user.txt")
	w.git("commit", "-q", "-m", "user")
	w.push()
	assert.Equal(t, w.sandboxGit("rev-parse", "HEAD"), w.tip("HEAD"))
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
}

func TestRepositoryFormats(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(*testing.T) *fixture
	}{
		{"plain", func(t *testing.T) *fixture { return buildRepo(t).createSandbox() }},
		{"SHA-256", func(t *testing.T) *fixture { return newRepo(t, "--object-format=sha256").createSandbox() }},
		{"a git directory elsewhere", func(t *testing.T) *fixture {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			assert.NilError(t, err)
			return newRepo(t, "--separate-git-dir="+filepath.Join(dir, "elsewhere.git")).createSandbox()
		}},
		{"packed refs and objects", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("gc", "-q")
			return w.createSandbox()
		}},
		{"split index", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("config", "core.splitIndex", "true")
			w.git("update-index", "--split-index")
			return w.createSandbox()
		}},
		{"untracked cache and fsmonitor", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("update-index", "--force-untracked-cache")
			w.git("update-index", "--fsmonitor")
			return w.createSandbox()
		}},
		{"core.ignorecase and precomposeunicode", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("config", "core.ignorecase", "true")
			w.git("config", "core.precomposeunicode", "true")
			w.createSandbox()
			assert.Equal(t, w.sandboxGit("config", "core.ignorecase"), "true")
			assert.Equal(t, w.sandboxGit("config", "core.precomposeunicode"), "true")
			return w
		}},
		{"settings of the work tree", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("config", "extensions.worktreeConfig", "true")
			w.git("config", "--worktree", "core.autocrlf", "input")
			w.createSandbox()
			assert.Equal(t, w.sandboxGit("config", "core.autocrlf"), "input")
			return w
		}},
		{"objects of another repository", func(t *testing.T) *fixture {
			w := newRepo(t)
			other := filepath.Join(w.dir, "other")
			w.run(w.dir, nil, "git", "clone", "-q", "--shared", w.root, other)
			w.git("repack", "-adq")
			third := filepath.Join(w.dir, "third")
			w.run(w.dir, nil, "git", "clone", "-q", "--shared", other, third)
			w.root = third
			w.createSandbox()
			return w
		}},
		{"a branch that no agent may name", func(t *testing.T) *fixture {
			w := newRepo(t)
			w.git("switch", "-q", "-c", "日本/+fix")
			return w.createSandbox()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assertSyncs(t, tc.make(t))
		})
	}
}

// An older git rejects such a repository itself.
func TestReftable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("git", "init", "-q", "--ref-format=reftable", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		assert.Assert(t, is.Contains(string(out), "ref-format"))
		w := newRepo(t)
		w.git("config", "core.repositoryformatversion", "1")
		w.git("config", "extensions.refStorage", "reftable")
		_, err := gitrepo.Detect(t.Context(), w.root, func(string) string { return "x" })
		assert.ErrorContains(t, err, "refstorage")
		return
	}
	assertSyncs(t, newRepo(t, "--ref-format=reftable").createSandbox())
}

func TestLinkedWorktree(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	linked := filepath.Join(w.root, ".worktrees", "side")
	w.git("worktree", "add", "-q", "-b", "side", linked)
	mainTip := w.tip("main")
	w.root = linked
	w.createSandbox()
	assertSyncs(t, w)
	assert.Equal(t, w.tip("main"), mainTip)
}

func TestShallowClone(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "second\n")
	w.git("commit", "-qam", "second")
	shallow := filepath.Join(w.dir, "shallow")
	w.run(w.dir, nil, "git", "clone", "-q", "--depth", "1", "file://"+w.root, shallow)
	w.root = shallow
	w.createSandbox()
	assert.Equal(t, w.sandboxGit("rev-list", "--count", "HEAD"), "1")
	w.sandboxGit("fsck", "--strict")
	assertSyncs(t, w)
	assert.Equal(t, w.git("rev-list", "--count", "HEAD"), "3")
}

func TestSparseCheckout(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"false", "true"} {
		t.Run("sparse index "+index, func(t *testing.T) {
			w := newRepo(t)
			w.write("out/side.txt", "x\n")
			w.write("out/more.txt", "x\n")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "second")
			w.git("config", "index.sparse", index)
			w.git("sparse-checkout", "set", "--cone", "dir")
			w.createSandbox()
			assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
			assert.Assert(t, is.Contains(w.sandboxGit("ls-files", "-t", "out"), "S out/side.txt"))
			assertSyncs(t, w)

			// A change of a file that is not checked out.
			blob := w.runEnv(w.root, strings.NewReader("changed\n"), w.sandboxEnv(), "git", "hash-object", "-w", "--stdin")
			w.sandboxGit("update-index", "--cacheinfo", "100644,"+blob+",out/side.txt")
			w.sandboxGit("update-index", "--skip-worktree", "out/side.txt")
			w.sandboxGit("commit", "-q", "-m", "agent: out of sight")
			assert.Equal(t, w.fetch().Commits, 1)
			w.assertClean()
			_, err := os.Stat(filepath.Join(w.root, "out", "side.txt"))
			assert.Assert(t, os.IsNotExist(err))
		})
	}
}

// The sandbox lacks the user's filter. Files that were checked out with it are unchanged there; a commit of one
// has content instead of a pointer, and stays out of the user's branch.
func TestCommitWithoutARequiredFilterIsLeftOut(t *testing.T) {
	t.Parallel()
	w := emptyRepo(t)
	w.git("config", "filter.lfs.clean", "sed s/.*/pointer/")
	w.git("config", "filter.lfs.smudge", "sed s/.*/content/")
	w.git("config", "filter.lfs.required", "true")
	w.write(".gitattributes", "*.bin filter=lfs -text\n")
	w.write("a.txt", "a\n")
	w.write("big.bin", "content\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	assert.Equal(t, w.git("show", "HEAD:big.bin"), "pointer")
	w.createSandbox()
	assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
	w.writeInside("big.bin", "changed by the agent\n")
	w.writeInside("a.txt", "changed\n")
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-q", "-m", "agent")
	c := w.fetch().Conflict
	assert.Assert(t, c != nil)
	assert.Equal(t, c.Kind, unencoded)
	assert.Equal(t, w.git("diff", "--name-only", "HEAD"), "")
	assert.Equal(t, w.git("show", "HEAD:a.txt"), "a")
}

func TestUnsupportedRepositories(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(w *fixture)
		want string
	}{
		{"detached", func(w *fixture) { w.git("checkout", "-q", "--detach") }, "detached HEAD state"},
		{"merge", func(w *fixture) {
			w.git("switch", "-q", "-c", "x")
			w.git("commit", "-q", "--allow-empty", "-m", "x")
			w.git("switch", "-q", "main")
			w.git("merge", "-q", "--no-ff", "--no-commit", "x")
		}, "a merge is in progress"},
		{"rebase", func(w *fixture) {
			w.git("-c", "sequence.editor=echo break >", "rebase", "-q", "-i", "--root")
		}, "a rebase is in progress"},
		{"bisect", func(w *fixture) { w.git("bisect", "start") }, "a bisect is in progress"},
		{"conflicts of a stash", func(w *fixture) {
			w.write("a.txt", "one\n")
			w.git("stash", "-q")
			w.write("a.txt", "two\n")
			w.git("commit", "-qam", "two")
			_ = exec.Command("git", "-C", w.root, "stash", "pop").Run()
		}, `unresolved conflicts in "a.txt"`},
		{"partial clone", func(w *fixture) { w.git("config", "remote.origin.promisor", "true") }, "partial clone: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newRepo(t).openRepo() // before, because scope refuses some itself
			tc.make(w)
			assert.ErrorContains(t, w.repo.Check(t.Context()), tc.want)
		})
	}
}

func TestConfigurationIsSanitized(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	for _, s := range [][2]string{
		{"remote.origin.url", "https://user:s3cret@git.example/a"},
		{"remote.evil.url", "ext::sh -c x"},
		{"credential.helper", "store s3cret"},
		{"url.https://s3cret@x/.insteadOf", "https://x/"},
		{"core.sshCommand", "s3cret"},
		{"core.hooksPath", "s3cret"},
		{"http.extraHeader", "s3cret"},
		{"alias.x", "!s3cret"},
		{"user.name", `Ann "\ Other`},
		{"user.email", "ann@example.com"},
		{"user.signingKey", "s3cret"},
		{"branch.main.remote", "origin"},
		{"branch.main.merge", "refs/heads/main"},
		{"commit.gpgSign", "true"},
	} {
		w.git("config", s[0], s[1])
	}
	w.createSandbox()
	content, err := os.ReadFile(filepath.Join(w.gitDir, "config"))
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(content), "s3cret"), string(content))
	assert.Equal(t, w.sandboxGit("config", "user.name"), `Ann "\ Other`)
	assert.Equal(t, w.sandboxGit("remote", "-v"), "origin\thttps://git.example/a (fetch)\norigin\thttps://git.example/a (push)")
	assert.Equal(t, w.sandboxGit("config", "branch.main.merge"), "refs/heads/main")
	entries, err := os.ReadDir(filepath.Join(w.gitDir, "hooks"))
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)
}
