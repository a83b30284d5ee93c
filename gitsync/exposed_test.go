package gitsync

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// An agent must not be able to write git configuration of the user.
func TestConfigurationInTheWorktreeIsRejected(t *testing.T) {
	for name, set := range map[string]func(w *fixture, home string){
		"included":            func(w *fixture, _ string) { w.git("config", "include.path", "../settings") },
		"included, not there": func(w *fixture, _ string) { w.git("config", "include.path", "../none/settings") },
		"included on a branch": func(w *fixture, _ string) {
			w.git("config", "includeIf.onbranch:other.path", filepath.Join(w.root, "settings"))
		},
		"included by the user's": func(w *fixture, _ string) {
			w.git("config", "--global", "include.path", filepath.Join(w.root, "settings"))
		},
		"by a link": func(w *fixture, _ string) {
			assert.NilError(t, os.Symlink(filepath.Join(w.root, "settings"), filepath.Join(w.dir, "link")))
			w.git("config", "include.path", filepath.Join(w.dir, "link"))
		},
		"the user's own file": func(w *fixture, home string) {
			assert.NilError(t, os.Symlink(filepath.Join(w.root, "settings"), filepath.Join(home, ".gitconfig")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := setHome(t)
			w := newRepo(t)
			w.write("settings", "[alias]\n\tst = status\n")
			set(w, home)
			err := w.openRepo().repo.Check(t.Context())
			assert.Assert(t, cmp.ErrorContains(err, "git configuration in the worktree: "))
		})
	}
	t.Run("elsewhere", func(t *testing.T) {
		w := newRepo(t)
		assert.NilError(t, os.WriteFile(filepath.Join(w.dir, "settings"), []byte("[alias]\n\tst = status\n"), 0o600))
		w.git("config", "include.path", "../../settings")
		w.git("config", "include.path", "more")
		assert.NilError(t, w.openRepo().repo.Check(t.Context()))
	})
}

// No commit has files below .git, also if that is a link.
func TestGitDirectoryBehindALink(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	assert.NilError(t, os.Rename(filepath.Join(w.root, ".git"), filepath.Join(w.dir, "elsewhere")))
	assert.NilError(t, os.Symlink("../elsewhere", filepath.Join(w.root, ".git")))
	w.createSandbox()
	w.commit("a.txt", "agent\n")
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
}

func TestChangedHooksAreReported(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	hooks := func() map[string]string {
		found, err := w.openRepo().repo.git.Hooks(t.Context())
		assert.NilError(t, err)
		return found
	}
	changed := func(since map[string]string) (paths []string) {
		for path, hash := range hooks() {
			if was, there := since[path]; !there || was != hash {
				paths = append(paths, path)
			}
		}
		slices.Sort(paths)
		return paths
	}
	w.write(".husky/_/pre-commit", "#!/bin/sh\n")
	unused := hooks()
	w.write(".husky/_/pre-commit", "#!/bin/sh\n# other\n")
	assert.Equal(t, len(changed(unused)), 0, "git does not run them")
	w.git("config", "core.hooksPath", ".husky/_")
	before := hooks()
	assert.Equal(t, len(changed(before)), 0)
	w.write(".husky/_/post-index-change", "touch /evil\n")
	w.write(".husky/pre-commit", "touch /evil\n")
	w.write(".husky/_/pre-commit", "touch /evil\n")
	assert.NilError(t, os.Symlink("/dev/zero", filepath.Join(w.root, ".husky", "_", "endless")))
	assert.DeepEqual(t, changed(before), []string{
		filepath.Join(w.root, ".husky", "_", "endless"), filepath.Join(w.root, ".husky", "_", "post-index-change"),
		filepath.Join(w.root, ".husky", "_", "pre-commit"), filepath.Join(w.root, ".husky", "pre-commit"),
	})
	elsewhere := filepath.Join(w.dir, "elsewhere")
	assert.NilError(t, os.Mkdir(elsewhere, 0o755))
	w.git("config", "core.hooksPath", elsewhere)
	before = hooks()
	assert.NilError(t, os.WriteFile(filepath.Join(elsewhere, "pre-commit"), nil, 0o755))
	assert.Equal(t, len(changed(before)), 0, "an agent cannot write there")
}
