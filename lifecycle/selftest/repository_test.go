package selftest

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// The test repository ignores the user's environment and git configuration.
func TestRepositoryIgnoresUserConfiguration(t *testing.T) {
	home := t.TempDir()
	hook := filepath.Join(home, "hooks", "pre-commit")
	assert.NilError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	assert.NilError(t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	config := filepath.Join(home, ".gitconfig")
	assert.NilError(t, os.WriteFile(config, []byte("[core]\nhooksPath = "+filepath.Dir(hook)+"\n[commit]\ngpgSign = true\n"), 0o644))
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("HOME", home)
	t.Setenv("GIT_DIR", filepath.Join(home, "elsewhere"))

	first, err := newRepository(t.Context(), t.TempDir())
	assert.NilError(t, err)
	second, err := newRepository(t.Context(), t.TempDir())
	assert.NilError(t, err)
	var origins []string
	for _, root := range []string{first, second} {
		branch, err := git(t.Context(), root, "branch", "--show-current")
		assert.NilError(t, err)
		assert.Equal(t, branch, "main")
		status, err := git(t.Context(), root, "status", "--porcelain")
		assert.NilError(t, err)
		assert.Equal(t, status, "")
		origin, err := git(t.Context(), root, "remote", "get-url", "origin")
		assert.NilError(t, err)
		origins = append(origins, origin)
	}
	assert.Assert(t, origins[0] != origins[1])
}

func TestNoGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got, err := lines(t, t.Context(), newFakeMachine())
	assert.ErrorIs(t, err, ErrFailed)
	assert.Equal(t, got[4], `sandbox: FAILED, creating the test repository: exec: "git": executable file not found in $PATH | install git: docker ralph works in git repositories`)
}
