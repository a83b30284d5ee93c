package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// silentEngine is an engine that cannot be reached.
type silentEngine struct{ noEngine }

func (silentEngine) Info(context.Context, client.InfoOptions) (client.SystemInfoResult, error) {
	return client.SystemInfoResult{}, errors.New("no engine")
}

// A command that cannot have a sandbox creates no worktree for it.
func TestNoWorktreeWithoutAnEngine(t *testing.T) {
	agent := "nonsense"
	for _, tc := range []struct {
		name      string
		engine    func() (host.API, error)
		overrides config.Overrides
		err       string
	}{
		{"no connection", func() (host.API, error) { return nil, errors.New("no engine") }, config.Overrides{}, "no engine"},
		{"no answer", func() (host.API, error) { return silentEngine{}, nil }, config.Overrides{}, "no engine"},
		{"no image", func() (host.API, error) { return silentEngine{}, nil }, config.Overrides{Agent: &agent}, `no image for agent "nonsense"`},
	} {
		for _, command := range []string{"build", "plan", "run", "shell"} {
			t.Run(tc.name+" for "+command, func(t *testing.T) {
				dir := t.TempDir()
				t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
				for _, args := range [][]string{
					{"init", "-q", "-b", "main"},
					{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x"},
					{"remote", "add", "origin", "https://example.com/acme/shop"},
				} {
					cmd := exec.CommandContext(t.Context(), "git", args...)
					cmd.Dir = dir
					out, err := cmd.CombinedOutput()
					assert.NilError(t, err, "%s", out)
				}
				var stderr bytes.Buffer
				h := host.Host{
					Dir: dir, StateDir: t.TempDir(), Stderr: &stderr, Engine: tc.engine, HasPlugin: func(string) bool { return false },
					LookupEnv: func(string) (string, bool) { return "", false },
				}
				_, err := Run(t.Context(), h, Options{Command: command, Worktree: &host.Worktree{Name: "x"}, Overrides: tc.overrides})
				assert.ErrorContains(t, err, tc.err)
				_, err = os.Lstat(filepath.Join(dir, ".worktrees"))
				assert.ErrorIs(t, err, os.ErrNotExist)
				assert.Equal(t, stderr.String(), "")
			})
		}
	}
}
