package worktrees

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	all := append([]string{"-c", "user.name=T", "-c", "user.email=t@example.com"}, args...)
	result := icmd.RunCmd(icmd.Command("git", all...), icmd.Dir(dir))
	result.Assert(t, icmd.Success)
	return strings.TrimSpace(result.Stdout())
}

// newRoot makes a repository with a commit on main.
func newRoot(t testing.TB) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "gitconfig"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	root := filepath.Join(realPath(t.TempDir()), "shop")
	gitIn(t, filepath.Dir(root), "init", "-q", "-b", "main", root)
	commit(t, root, "first")
	return root
}

// commit commits a new file of that name.
func commit(t testing.TB, dir, name string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	gitIn(t, dir, "add", name)
	gitIn(t, dir, "commit", "-q", "-m", name)
}

func open(t testing.TB, dir string) *Repository {
	t.Helper()
	wt, err := gitrepo.Detect(t.Context(), dir, func(string) string { return "any" })
	assert.NilError(t, err)
	r, err := Open(wt)
	assert.NilError(t, err)
	return r
}

func add(t testing.TB, r *Repository, name, branch string) Tree {
	t.Helper()
	tree, _, err := r.Add(t.Context(), name, branch)
	assert.NilError(t, err)
	return tree
}

func TestAdd(t *testing.T) {
	root := newRoot(t)
	gitIn(t, root, "branch", "there")
	upstream := filepath.Join(filepath.Dir(root), "upstream")
	gitIn(t, root, "clone", "-q", root, upstream)
	gitIn(t, upstream, "branch", "theirs")
	gitIn(t, root, "remote", "add", "origin", upstream)
	gitIn(t, root, "fetch", "-q", "origin")

	for _, tc := range []struct {
		name, branch string
		created      bool
	}{
		{"a_b-1", "a_b-1", true},
		{"b", "feature/b", true},
		{"c", "there", false},
		{"d", "theirs", false},
	} {
		tree, created, err := open(t, root).Add(t.Context(), tc.name, tc.branch)
		assert.NilError(t, err)
		assert.Equal(t, created, tc.created)
		assert.Equal(t, tree.Path, filepath.Join(root, ".worktrees", tc.name))
		assert.Equal(t, tree.Name, tc.name)
		assert.Equal(t, tree.Branch, tc.branch)
		assert.Equal(t, gitIn(t, tree.Path, "branch", "--show-current"), tc.branch)
	}
	assert.Equal(t, gitIn(t, root, "rev-parse", "--abbrev-ref", "theirs@{upstream}"), "origin/theirs")
	ignore, err := os.ReadFile(filepath.Join(root, ".worktrees", ".gitignore"))
	assert.NilError(t, err)
	assert.Equal(t, string(ignore), "*\n")
	assert.Equal(t, gitIn(t, root, "status", "--porcelain"), "")
}

// From inside another worktree a new one goes beside it, and starts at its
// commit.
func TestAddFromAnotherWorktree(t *testing.T) {
	root := newRoot(t)
	one := add(t, open(t, root), "one", "one")
	commit(t, one.Path, "second")
	two := add(t, open(t, one.Path), "two", "two")
	assert.Equal(t, two.Path, filepath.Join(root, ".worktrees", "two"))
	assert.Equal(t, gitIn(t, two.Path, "log", "-1", "--format=%s"), "second")

	trees, err := open(t, one.Path).List(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(trees), 3)
	assert.Assert(t, trees[0].Main && !trees[0].Current && trees[0].Name == "")
	assert.Assert(t, !trees[1].Main && trees[1].Current && trees[1].Name == "one")
}

func TestAddRejects(t *testing.T) {
	root := newRoot(t)
	add(t, open(t, root), "taken", "feature")
	assert.NilError(t, os.Mkdir(filepath.Join(root, ".worktrees", "folder"), 0o755))
	for _, tc := range []struct{ name, branch, message string }{
		{"../x", "x", `"../x"`},
		{"-x", "x", "invalid worktree name"},
		{"", "x", "invalid worktree name"},
		{strings.Repeat("x", 101), "x", "invalid worktree name"},
		{"folder", "x", "exists and is not a worktree\nrename or remove it"},
		{"x", "main", "already checked out at '" + root + "'\nchoose another branch with --branch-name"},
		{"x", "a b", "git check-ref-format: 'a b' is not a valid branch name\nchoose another branch with --branch-name"},
		{"x", "-b", "git check-ref-format: '-b' is not a valid branch name"},
		{"x", "@{-1}", "choose another branch with --branch-name"},
		{"x", "feature/x", "cannot create 'refs/heads/feature/x'\nchoose another branch with --branch-name"},
	} {
		_, _, err := open(t, root).Add(t.Context(), tc.name, tc.branch)
		assert.Assert(t, cmp.Contains(withHints(err), tc.message))
	}
	assert.Equal(t, strings.Count(gitIn(t, root, "worktree", "list"), "\n"), 1, "nothing was made")

	empty := filepath.Join(filepath.Dir(root), "empty")
	gitIn(t, root, "init", "-q", "-b", "main", empty)
	_, _, err := open(t, empty).Add(t.Context(), "x", "x")
	assert.Assert(t, cmp.Contains(withHints(err), "create the first commit"))

	bare, linked := filepath.Join(filepath.Dir(root), "bare.git"), filepath.Join(filepath.Dir(root), "linked")
	gitIn(t, root, "clone", "-q", "--bare", root, bare)
	gitIn(t, bare, "worktree", "add", "-q", linked, "main")
	_, _, err = open(t, linked).Add(t.Context(), "x", "x")
	assert.ErrorContains(t, err, "has no main worktree")
	trees, err := open(t, linked).List(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(trees), 1)
	assert.Equal(t, trees[0].Path, linked)
}

// withHints returns an error as a user sees it.
func withHints(err error) string {
	return strings.Join(append([]string{fmt.Sprint(err)}, hint.Of(err)...), "\n")
}

// Links of the repository are not followed.
func TestAddDoesNotFollowLinks(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, root, outside string){
		"the folder": func(t *testing.T, root, outside string) {
			assert.NilError(t, os.Symlink(outside, filepath.Join(root, ".worktrees")))
		},
		"a link inside the repository": func(t *testing.T, root, _ string) {
			assert.NilError(t, os.Symlink(".git", filepath.Join(root, ".worktrees")))
		},
		"the file that ignores": func(t *testing.T, root, outside string) {
			assert.NilError(t, os.Mkdir(filepath.Join(root, ".worktrees"), 0o755))
			assert.NilError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(root, ".worktrees", ".gitignore")))
		},
		"the worktree": func(t *testing.T, root, outside string) {
			assert.NilError(t, os.Mkdir(filepath.Join(root, ".worktrees"), 0o755))
			assert.NilError(t, os.Symlink(outside, filepath.Join(root, ".worktrees", "x")))
		},
		"a file": func(t *testing.T, root, _ string) {
			assert.NilError(t, os.WriteFile(filepath.Join(root, ".worktrees"), nil, 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := newRoot(t), t.TempDir()
			plant(t, root, outside)
			_, _, err := open(t, root).Add(t.Context(), "x", "x")
			assert.Assert(t, cmp.Contains(withHints(err), "remove it"))
			entries, err := os.ReadDir(outside)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 0)
			_, err = os.Lstat(filepath.Join(root, ".git", "x"))
			assert.Assert(t, os.IsNotExist(err))
		})
	}
}

func TestAddCompletesTheIgnoreFile(t *testing.T) {
	for _, tc := range []struct{ was, is string }{{"", "*\n"}, {"*", "*"}, {"a\n*\n", "a\n*\n"}, {"!x", "!x\n*\n"}} {
		root := newRoot(t)
		file := filepath.Join(root, ".worktrees", ".gitignore")
		assert.NilError(t, os.Mkdir(filepath.Dir(file), 0o755))
		assert.NilError(t, os.WriteFile(file, []byte(tc.was), 0o644))
		add(t, open(t, root), "x", "x")
		now, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Equal(t, string(now), tc.is)
	}
}

// A worktree whose folder was removed by hand is made again.
func TestAddAfterTheDirectoryWasRemoved(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "topic")
	commit(t, tree.Path, "second")
	assert.NilError(t, os.RemoveAll(tree.Path))
	tree, found, err := open(t, root).Find(t.Context(), "x")
	assert.NilError(t, err)
	assert.Assert(t, found && tree.Missing)
	tree, created, err := open(t, root).Add(t.Context(), "x", "topic")
	assert.NilError(t, err)
	assert.Assert(t, !created && !tree.Missing)
	assert.Equal(t, gitIn(t, tree.Path, "log", "-1", "--format=%s"), "second")
}

func TestRemove(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "x")
	assert.NilError(t, os.WriteFile(filepath.Join(tree.Path, "new"), nil, 0o644))
	gitIn(t, root, "worktree", "lock", "--reason", "mine", tree.Path)
	locked, _, err := open(t, root).Find(t.Context(), "x")
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(withHints(open(t, root).Remove(t.Context(), locked)), "is locked (\"mine\")\nunlock it with \"git worktree unlock "+tree.Path))
	gitIn(t, root, "worktree", "unlock", tree.Path)
	r := open(t, root)
	assert.ErrorContains(t, r.DeleteBranch(t.Context(), "x"), "checked out at")
	assert.NilError(t, r.Remove(t.Context(), tree))
	_, err = os.Lstat(tree.Path)
	assert.Assert(t, os.IsNotExist(err))
	branches, err := r.Branches(t.Context())
	assert.NilError(t, err)
	assert.DeepEqual(t, branches, []string{"main", "x"})
	assert.NilError(t, r.DeleteBranch(t.Context(), "x"))
	assert.Equal(t, gitIn(t, root, "branch", "--format=%(refname:short)"), "main")
}

func TestWorktreeOfThisRepository(t *testing.T) {
	root := newRoot(t)
	r := open(t, root)
	x, y := add(t, r, "x", "x"), add(t, r, "y", "y")
	wt, err := r.Worktree(t.Context(), x)
	assert.NilError(t, err)
	assert.Equal(t, wt.Root, x.Path)
	other, err := os.ReadFile(filepath.Join(y.Path, ".git"))
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(x.Path, ".git"), other, 0o644))
	_, err = r.Worktree(t.Context(), x)
	assert.ErrorContains(t, err, "checking the .git file of worktree "+x.Path+": "+filepath.Join(x.Path, ".git")+" leads to "+filepath.Join(root, ".git", "worktrees", "y")+", which")
	assert.NilError(t, os.Remove(filepath.Join(x.Path, ".git")))
	gitIn(t, x.Path, "init", "-q")
	_, err = r.Worktree(t.Context(), x)
	assert.Assert(t, cmp.Contains(withHints(err), "git worktree repair"))
}

func FuzzParseList(f *testing.F) {
	f.Add("worktree /a\x00HEAD 12\x00branch refs/heads/x\x00\x00worktree /b\x00bare\x00\x00")
	f.Add("worktree /a\x00HEAD 12\x00detached\x00locked why\nso\x00prunable gone\x00\x00")
	f.Add("\x00\x00\x00branch")
	f.Fuzz(func(t *testing.T, out string) {
		for _, tree := range parseList(out) {
			assert.Assert(t, tree.Path != "" && strings.Contains(out, tree.Path))
			assert.Assert(t, cmp.Contains(out, tree.Branch))
		}
	})
}

func TestParseList(t *testing.T) {
	trees := parseList("worktree /r\x00HEAD 1\x00branch refs/heads/feature/a\x00\x00worktree /b c\x00HEAD 2\x00detached\x00locked why\x00\x00worktree /bare\x00bare\x00\x00")
	assert.Equal(t, len(trees), 2)
	assert.Equal(t, trees[0], Tree{Path: "/r", Branch: "feature/a", head: "1"})
	assert.Equal(t, trees[1], Tree{Path: "/b c", Locked: true, Why: "why", head: "2"})
}
