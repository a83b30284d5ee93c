package filters

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// The index of a killed process does not stay for good: git removes it, in a linked worktree, too.
func TestGitRemovesAnIndexThatWasLeft(t *testing.T) {
	for name, dir := range map[string]string{"main worktree": ".", "subdirectory": "sub", "linked worktree": "linked"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			git := func(args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "git", args...)
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
				out, err := cmd.CombinedOutput()
				assert.NilError(t, err, "%s", out)
			}
			git("init", "-q")
			git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
			git("worktree", "add", "-q", "--detach", "linked")
			assert.NilError(t, os.MkdirAll(filepath.Join(root, "sub"), 0o755))
			g := gitrepo.Git{Program: "git", Dir: filepath.Join(root, dir), Environ: gitrepo.Environ(os.Environ())}

			index, remove, err := TempIndex(t.Context(), g)
			assert.NilError(t, err)
			for _, file := range []string{index, index + ".lock"} {
				assert.NilError(t, os.WriteFile(file, nil, 0o600))
				assert.NilError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-30*24*time.Hour)))
			}
			git("gc", "-q")
			left, err := filepath.Glob(index + "*")
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0)

			assert.NilError(t, os.WriteFile(index, nil, 0o600))
			remove()
			_, err = os.Stat(index)
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
