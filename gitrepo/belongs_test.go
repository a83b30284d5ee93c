package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// An agent that writes into a worktree cannot make docker-ralph use another repository.
func TestRedirectedGitFileIsRejected(t *testing.T) {
	secret := repository(t)
	gitIn(t, secret, "worktree", "add", "-q", "-b", "side", filepath.Join(tempDir(t), "side"))
	gitIn(t, secret, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository(t), "lib")
	git := filepath.Join(secret, ".git")
	file := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			t.Helper()
			path := filepath.Join(folder, name)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
		}
	}
	for _, tc := range []struct {
		name  string
		plant func(t *testing.T, folder string)
		err   string
	}{
		{"its git directory", file(".git", "gitdir: "+git+"\n"), "the repository of another directory"},
		{"a link to it", func(t *testing.T, folder string) {
			assert.NilError(t, os.Symlink(git, filepath.Join(folder, ".git")))
		}, "the repository of another directory"},
		{"a linked work tree", file(".git", "gitdir: "+filepath.Join(git, "worktrees", "side")+"\n"), "which belongs to another worktree"},
		{"a submodule", file(".git", "gitdir: "+filepath.Join(git, "modules", "lib")+"\n"), "is outside of its worktree"},
		{"a git directory that shares its own", func(t *testing.T, folder string) {
			gitIn(t, folder, "init", "-q", "-b", "main")
			file(".git/commondir", git+"\n")(t, folder)
		}, "which belongs to another worktree"},
		{"a linked one of its own making", func(t *testing.T, folder string) {
			own := filepath.Join(folder, "own")
			file("own/HEAD", "ref: refs/heads/main\n")(t, folder)
			file("own/commondir", git+"\n")(t, folder)
			file("own/gitdir", filepath.Join(folder, ".git")+"\n")(t, folder)
			file(".git", "gitdir: "+own+"\n")(t, folder)
		}, "which belongs to another worktree"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shop := repository(t)
			folder := filepath.Join(shop, "packages", "api")
			assert.NilError(t, os.MkdirAll(filepath.Join(folder, "src"), 0o755))
			tc.plant(t, folder)
			for _, dir := range []string{folder, filepath.Join(folder, "src")} {
				_, err := Detect(t.Context(), dir, noenv)
				assert.ErrorContains(t, err, tc.err)
			}
			w, err := Detect(t.Context(), shop, noenv)
			assert.NilError(t, err)
			assert.Equal(t, w.Root, shop)
		})
	}
}

// A work tree that was moved is one again as soon as git knows.
func TestMovedWorktreeIsRejected(t *testing.T) {
	root := repository(t)
	base := tempDir(t)
	linked, moved := filepath.Join(base, "linked"), filepath.Join(base, "moved")
	gitIn(t, root, "worktree", "add", "-q", "-b", "side", linked)
	assert.NilError(t, os.Rename(linked, moved))
	_, err := Detect(t.Context(), moved, noenv)
	assert.ErrorContains(t, err, "which belongs to another worktree")
	gitIn(t, moved, "worktree", "repair")
	w, err := Detect(t.Context(), moved, noenv)
	assert.NilError(t, err)
	assert.Equal(t, w.Root, moved)
}

func TestOuter(t *testing.T) {
	outer := repository(t)
	nested := filepath.Join(outer, "packages", "api")
	assert.NilError(t, os.MkdirAll(nested, 0o755))
	gitIn(t, nested, "init", "-q", "-b", "main")
	apart := filepath.Join(outer, "apart")
	gitIn(t, outer, "init", "-q", "-b", "main", "--separate-git-dir", filepath.Join(tempDir(t), "git"), apart)
	gitIn(t, outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository(t), "lib")
	gitIn(t, outer, "commit", "-q", "-m", "lib")
	inside, outside := filepath.Join(outer, ".worktrees", "w"), filepath.Join(tempDir(t), "w")
	gitIn(t, outer, "worktree", "add", "-q", "-b", "inside", inside)
	gitIn(t, outer, "worktree", "add", "-q", "-b", "outside", outside)
	gitIn(t, outside, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "lib")
	inLib := filepath.Join(outer, "lib", "made")
	assert.NilError(t, os.MkdirAll(inLib, 0o755))
	gitIn(t, inLib, "init", "-q", "-b", "main")

	for _, tc := range []struct{ name, root, want string }{
		{"alone", outer, ""},
		{"made in a subfolder", nested, outer},
		{"with a git directory elsewhere", apart, outer},
		{"a submodule", filepath.Join(outer, "lib"), ""},
		{"a linked worktree inside", inside, ""},
		{"a linked worktree elsewhere", outside, ""},
		{"a submodule of a linked worktree", filepath.Join(outside, "lib"), ""},
		{"made in a submodule", inLib, filepath.Join(outer, "lib")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := Detect(t.Context(), tc.root, func(name string) string {
				return map[string]string{"RALPH_SCOPE_REPO": "a/b", "RALPH_SCOPE_BRANCH": "main"}[name]
			})
			assert.NilError(t, err)
			assert.Equal(t, w.Outer(), tc.want)
			assert.Check(t, tc.want == "" || MayBeNested(filepath.Join(tc.root, ".")), "no command would ask")
		})
	}
}
