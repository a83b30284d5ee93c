package hostgit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// The system's configuration, where a package of Git LFS has its filter, counts unless the user keeps it out.
func TestConfigOfTheSystem(t *testing.T) {
	root := t.TempDir()
	t.Setenv("HOME", root)
	t.Setenv("XDG_CONFIG_HOME", root)
	system := filepath.Join(root, "system")
	assert.NilError(t, os.WriteFile(system, []byte("[filter \"lfs\"]\n\tclean = git-lfs clean\n"), 0o600))
	t.Setenv("GIT_CONFIG_SYSTEM", system)
	out, err := exec.CommandContext(t.Context(), "git", "init", "-q", root).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	for value, want := range map[string]int{"": 1, "0": 1, "false": 1, "1": 0, "true": 0} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("GIT_CONFIG_NOSYSTEM", value)
			dir := filepath.Join(root, ".git")
			g, err := New(gitrepo.Worktree{Root: root, MainRoot: root, GitDir: dir, CommonDir: dir})
			assert.NilError(t, err)
			g, err = g.Reload(t.Context())
			assert.NilError(t, err)
			config, err := g.Config(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, len(Filters(config)), want)
		})
	}
}
