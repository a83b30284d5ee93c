package gitrepo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"
	"gotest.tools/v3/skip"

	"github.com/docker-ralph/docker-ralph/hint"
)

// noenv is an environment without any of our variables.
func noenv(string) string { return "" }

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

// isolate keeps the developer's own git configuration out of a test.
func isolate(t testing.TB) {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "gitconfig"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"} {
		t.Setenv(name, "")
		assert.NilError(t, os.Unsetenv(name))
	}
}

func tempDir(t testing.TB) string {
	t.Helper()
	return realPath(t.TempDir())
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	all := append([]string{"-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"}, args...)
	result := icmd.RunCmd(icmd.Command("git", all...), icmd.Dir(dir))
	result.Assert(t, icmd.Success)
	return strings.TrimSpace(result.Stdout())
}

// repository makes one with a commit on main and an origin.
func repository(t testing.TB) string {
	t.Helper()
	isolate(t)
	root := filepath.Join(tempDir(t), "shop")
	gitIn(t, filepath.Dir(root), "init", "-q", "-b", "main", root)
	gitIn(t, root, "remote", "add", "origin", "git@github.com:acme/shop.git")
	gitIn(t, root, "commit", "-q", "--allow-empty", "-m", "first")
	return root
}

func TestDetectMainWorktree(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "config", "user.name", "Ada Lovelace")
	gitIn(t, root, "config", "user.email", "ada@example.com")

	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	name := w.Config[slices.IndexFunc(w.Config, func(s Setting) bool { return s.Name == "name" })]
	assert.Equal(t, name, Setting{Section: "user", Name: "name", Value: "Ada Lovelace", File: filepath.Join(root, ".git", "config")})
	assert.Equal(t, w.Config.Last("user", "email"), "ada@example.com")
	w.Config = nil
	assert.DeepEqual(t, w, Worktree{
		Root: root, GitDir: filepath.Join(root, ".git"), CommonDir: filepath.Join(root, ".git"), MainRoot: root,
		Scope: Scope{Repo: "acme/shop", Branch: "main"},
	})
	assert.Assert(t, !w.Linked())
}

func TestDetectSubdirectory(t *testing.T) {
	root := repository(t)
	sub := filepath.Join(root, "a b", "ünï")
	assert.NilError(t, os.MkdirAll(sub, 0o755))

	w, err := Detect(t.Context(), sub, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, root)
	assert.Equal(t, w.Prefix, "a b/ünï")
	assert.Equal(t, w.CommonDir, w.GitDir)
	assert.Equal(t, w.Config.Last("user", "name"), "")
}

func TestDetectThroughSymlink(t *testing.T) {
	root := repository(t)
	assert.NilError(t, os.MkdirAll(filepath.Join(root, "deep", "er"), 0o755))
	link := filepath.Join(tempDir(t), "link")
	assert.NilError(t, os.Symlink(filepath.Join(root, "deep", "er"), link))

	w, err := Detect(t.Context(), link, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, root)
	assert.Equal(t, w.Prefix, "deep/er")
	assert.Equal(t, w.CommonDir, filepath.Join(root, ".git"))
	assert.Assert(t, !w.Linked())
}

func TestDetectLinkedWorktree(t *testing.T) {
	root := repository(t)
	linked := filepath.Join(tempDir(t), "linked")
	gitIn(t, root, "worktree", "add", "-q", "-b", "feature/x", linked)
	sub := filepath.Join(linked, "sub")
	assert.NilError(t, os.Mkdir(sub, 0o755))

	w, err := Detect(t.Context(), sub, noenv)
	assert.NilError(t, err)
	w.Config = nil
	assert.DeepEqual(t, w, Worktree{
		Root: linked, Prefix: "sub",
		GitDir: filepath.Join(root, ".git", "worktrees", "linked"), CommonDir: filepath.Join(root, ".git"), MainRoot: root,
		Scope: Scope{Repo: "acme/shop", Branch: "feature/x"},
	})
	assert.Assert(t, w.Linked())

	gitIn(t, root, "config", "core.worktree", tempDir(t))
	w, err = Detect(t.Context(), sub, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, linked)
	assert.Equal(t, w.MainRoot, "", "core.worktree may not choose a foreign folder")
}

func TestDetectWorktreeOfBareRepository(t *testing.T) {
	root := repository(t)
	bare := filepath.Join(tempDir(t), "shop.git")
	gitIn(t, root, "clone", "-q", "--bare", root, bare)
	linked := filepath.Join(tempDir(t), "linked")
	gitIn(t, bare, "worktree", "add", "-q", linked, "main")

	w, err := Detect(t.Context(), linked, noenv)
	assert.NilError(t, err)
	assert.Assert(t, w.Linked())
	assert.Equal(t, w.CommonDir, bare)
	assert.Equal(t, w.MainRoot, "")
	assert.Equal(t, w.Scope.Repo, root)
}

func TestDetectSubmodule(t *testing.T) {
	library := repository(t)
	super := filepath.Join(tempDir(t), "super")
	gitIn(t, filepath.Dir(super), "init", "-q", "-b", "main", super)
	gitIn(t, super, "submodule", "--quiet", "add", library, "lib")
	gitIn(t, filepath.Join(super, "lib"), "remote", "set-url", "origin", "https://h/acme/lib.git")

	w, err := Detect(t.Context(), filepath.Join(super, "lib"), noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, filepath.Join(super, "lib"))
	assert.Equal(t, w.MainRoot, w.Root)
	assert.Equal(t, w.GitDir, filepath.Join(super, ".git", "modules", "lib"))
	assert.Assert(t, !w.Linked())
	assert.Equal(t, w.Scope.Repo, "acme/lib")

	linked := filepath.Join(tempDir(t), "linked")
	gitIn(t, w.Root, "worktree", "add", "-q", "-b", "side", linked)
	lw, err := Detect(t.Context(), linked, noenv)
	assert.NilError(t, err)
	assert.Equal(t, lw.MainRoot, w.Root)
}

func TestDetectSeparateGitDir(t *testing.T) {
	isolate(t)
	base := tempDir(t)
	root, gitDir := filepath.Join(base, "tree"), filepath.Join(base, "elsewhere.git")
	gitIn(t, base, "init", "-q", "-b", "main", "--separate-git-dir", gitDir, root)
	gitIn(t, root, "remote", "add", "origin", "../upstream.git")

	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, root)
	assert.Equal(t, w.GitDir, gitDir)
	assert.Assert(t, !w.Linked())
	assert.DeepEqual(t, w.Scope, Scope{Repo: "../upstream", Branch: "main"})
}

func TestDetectUnbornBranch(t *testing.T) {
	isolate(t)
	root := tempDir(t)
	gitIn(t, root, "init", "-q", "-b", "trunk")
	gitIn(t, root, "remote", "add", "origin", "https://me:pw@h/acme/new.git")

	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	assert.DeepEqual(t, w.Scope, Scope{Repo: "acme/new", Branch: "trunk"})
}

func TestDetectBranchNamedLikeTag(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "checkout", "-q", "-b", "v1")
	gitIn(t, root, "tag", "v1")
	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Scope.Branch, "v1")
}

func TestDetectBranchWithoutCommit(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "checkout", "-q", "--orphan", "new")
	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Scope.Branch, "new")
}

func TestDetectHeadOutsideOfBranches(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "tag", "x")
	gitIn(t, root, "symbolic-ref", "HEAD", "refs/tags/x")
	_, err := Detect(t.Context(), root, noenv)
	assert.ErrorContains(t, err, "reading the current branch: git branch: HEAD")
}

func TestDetectInsteadOf(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "config", "url.https://tok3n@h/mirror/.insteadOf", "git@github.com:acme/")
	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Scope.Repo, "mirror/shop")
}

func TestDetectOverrides(t *testing.T) {
	isolate(t)
	root := tempDir(t)
	gitIn(t, root, "init", "-q", "-b", "main")
	gitIn(t, root, "commit", "-q", "--allow-empty", "-m", "first")
	gitIn(t, root, "checkout", "-q", "--detach")

	w, err := Detect(t.Context(), root, env(map[string]string{"RALPH_SCOPE_REPO": "o/r", "RALPH_SCOPE_BRANCH": "b/c"}))
	assert.NilError(t, err)
	assert.DeepEqual(t, w.Scope, Scope{Repo: "o/r", Branch: "b/c"})

	_, err = Detect(t.Context(), root, env(map[string]string{"RALPH_SCOPE_REPO": "o/r"}))
	assert.Error(t, err, "detached HEAD state. Checkout a branch first")
	_, err = Detect(t.Context(), root, env(map[string]string{"RALPH_SCOPE_BRANCH": "b"}))
	assert.Error(t, err, `no git remote "origin" found`)
	_, err = Detect(t.Context(), root, env(map[string]string{"RALPH_SCOPE_REPO": "o\n/r"}))
	assert.ErrorContains(t, err, `RALPH_SCOPE_REPO="o\n/r"`)
}

// The hint is a command that works as it is, in any directory.
func TestDetectSuggestsAnOrigin(t *testing.T) {
	isolate(t)
	for _, tc := range []struct{ dir, origin string }{
		{"shop", "local/shop"},
		{"My Shop (2)", "local/My-Shop--2-"},
		{"-läden", "local/l-den"},
		{"$(x)", "local/x-"},
		{"店", "local/project"},
	} {
		t.Run(tc.dir, func(t *testing.T) {
			root := filepath.Join(tempDir(t), tc.dir)
			assert.NilError(t, os.Mkdir(root, 0o700))
			gitIn(t, root, "init", "-q", "-b", "main")
			_, err := Detect(t.Context(), root, noenv)
			assert.ErrorIs(t, err, ErrNoOrigin)
			assert.DeepEqual(t, hint.Of(err), []string{`add one with "git remote add origin URL"; if there is no remote repository, with "git remote add origin ` + tc.origin + `"`})

			gitIn(t, root, "remote", "add", "origin", tc.origin)
			w, err := Detect(t.Context(), root, noenv)
			assert.NilError(t, err)
			assert.Equal(t, w.Scope.Repo, tc.origin)
		})
	}
}

func TestDetectOrderOfErrors(t *testing.T) {
	isolate(t)
	outside := tempDir(t)
	both := env(map[string]string{"RALPH_SCOPE_REPO": "o/r", "RALPH_SCOPE_BRANCH": "b"})
	for _, getenv := range []func(string) string{noenv, both} {
		_, err := Detect(t.Context(), outside, getenv)
		assert.Error(t, err, "not inside a git repository")
		assert.ErrorIs(t, err, ErrNotRepository)
	}

	gitIn(t, outside, "init", "-q", "-b", "main")
	gitIn(t, outside, "commit", "-q", "--allow-empty", "-m", "first")
	gitIn(t, outside, "checkout", "-q", "--detach")
	_, err := Detect(t.Context(), outside, noenv)
	assert.Error(t, err, `no git remote "origin" found`)

	gitIn(t, outside, "remote", "add", "upstream", "https://h/a/b")
	_, err = Detect(t.Context(), outside, noenv)
	assert.Error(t, err, `no git remote "origin" found`)

	gitIn(t, outside, "remote", "add", "origin", "https://h/a/b")
	_, err = Detect(t.Context(), outside, noenv)
	assert.Error(t, err, "detached HEAD state. Checkout a branch first")
	assert.DeepEqual(t, hint.Of(err), []string{`run "git switch BRANCH", or pass --worktree=NAME to work in a worktree with a branch of its own`})
}

func TestDetectBadOrigin(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "remote", "set-url", "origin", "https://me:s3cret@github.com/")
	_, err := Detect(t.Context(), root, noenv)
	assert.Error(t, err, "parsing the URL of origin: no path")
	assert.DeepEqual(t, hint.Of(err), []string{`correct it with "git remote set-url origin URL", or set RALPH_SCOPE_REPO=owner/repo`})
}

func TestDetectRejects(t *testing.T) {
	root := repository(t)
	bare := filepath.Join(tempDir(t), "shop.git")
	gitIn(t, root, "clone", "-q", "--bare", root, bare)
	planted := filepath.Join(root, "docs", "planted")
	gitIn(t, root, "init", "-q", "--bare", planted)
	broken := filepath.Join(tempDir(t), "broken")
	assert.NilError(t, os.Mkdir(broken, 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(broken, ".git"), []byte("gitdir: /nowhere/at/all\n"), 0o644))

	for _, tc := range []struct{ name, dir, message string }{
		{"bare", bare, "bare repository"},
		{"folder of a bare repository", filepath.Join(bare, "objects"), "bare repository"},
		{"planted bare repository", planted, "bare repository"},
		{".git", filepath.Join(root, ".git"), "is inside a git directory"},
		{"folder of .git", filepath.Join(root, ".git", "hooks"), "is inside a git directory"},
		{"broken .git file", broken, "/nowhere/at/all"},
		{"missing folder", filepath.Join(root, "missing"), "missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Detect(t.Context(), tc.dir, noenv)
			assert.ErrorContains(t, err, tc.message)
		})
	}
}

func TestDetectForeignWorktreeSetting(t *testing.T) {
	root := repository(t)
	gitIn(t, root, "config", "core.worktree", filepath.Dir(root))
	_, err := Detect(t.Context(), root, noenv)
	assert.ErrorContains(t, err, "does not lead to its repository")
}

func TestDetectIgnoresGitDir(t *testing.T) {
	root := repository(t)
	other := filepath.Join(tempDir(t), "other")
	gitIn(t, root, "clone", "-q", root, other)
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_WORK_TREE", other)

	w, err := Detect(t.Context(), root, os.Getenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, root)
	assert.Equal(t, w.Scope.Repo, "acme/shop")

	_, err = Detect(t.Context(), tempDir(t), os.Getenv)
	assert.Error(t, err, "not inside a git repository (GIT_DIR is ignored)")
}

func TestDetectRunsNothingOfTheRepository(t *testing.T) {
	root := repository(t)
	marker := filepath.Join(tempDir(t), "ran")
	run := "touch " + marker
	for _, key := range []string{"core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external", "alias.branch", "pager.branch", "pager.config"} {
		gitIn(t, root, "config", key, run)
	}
	hooks := filepath.Join(root, ".git", "hooks", "post-index-change")
	assert.NilError(t, os.WriteFile(hooks, []byte("#!/bin/sh\n"+run+"\n"), 0o755))

	_, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)
	_, err = os.Stat(marker)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestDetectForeignOwner(t *testing.T) {
	skip.If(t, runtime.GOOS == "windows" || os.Getuid() != 0, "changing a file's owner needs root")
	root := repository(t)
	assert.NilError(t, os.Chown(root, 12345, 12345))
	assert.NilError(t, os.Chown(filepath.Join(root, ".git"), 12345, 12345))
	_, err := Detect(t.Context(), root, noenv)
	assert.ErrorContains(t, err, "detected dubious ownership")
	assert.ErrorContains(t, err, "git config --global --add safe.directory "+root)
}

func TestDetectWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Detect(t.Context(), t.TempDir(), noenv)
	assert.Error(t, err, "git was not found in PATH")
	_, lookErr := exec.LookPath("git")
	assert.ErrorIs(t, lookErr, exec.ErrNotFound)
}

func TestDetectCancelled(t *testing.T) {
	root := repository(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Detect(ctx, root, noenv)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestDetectLineBreakInPath(t *testing.T) {
	skip.If(t, runtime.GOOS == "windows", "no such file names")
	isolate(t)
	root := filepath.Join(tempDir(t), "a\nb")
	assert.NilError(t, os.Mkdir(root, 0o755))
	gitIn(t, root, "init", "-q", "-b", "main")
	_, err := Detect(t.Context(), root, noenv)
	assert.ErrorContains(t, err, "line break in the path")
}

func BenchmarkDetect(b *testing.B) {
	root := repository(b)
	for b.Loop() {
		if _, err := Detect(b.Context(), root, noenv); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSigningKey(t *testing.T) {
	root := repository(t)
	signingKey := func() (format, key string) {
		w, err := Detect(t.Context(), root, noenv)
		assert.NilError(t, err)
		return w.Config.SigningKey()
	}
	format, key := signingKey()
	assert.Equal(t, format+key, "", "nothing is set")

	t.Setenv("HOME", "/home/una")
	for setting, want := range map[string]string{
		"~/.ssh/id.pub": "/home/una/.ssh/id.pub", "key::ssh-ed25519 AAAA una@x": "key::ssh-ed25519 AAAA una@x", "/k.pub": "/k.pub",
	} {
		gitIn(t, root, "config", "gpg.format", "ssh")
		gitIn(t, root, "config", "user.signingKey", setting)
		format, key = signingKey()
		assert.Equal(t, format, "ssh")
		assert.Equal(t, key, want)
	}
}
