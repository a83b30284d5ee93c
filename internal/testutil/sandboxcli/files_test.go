package sandboxcli_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

func owner(t *testing.T, info fs.FileInfo) uint32 {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	assert.Assert(t, ok)
	return st.Uid
}

// setUpRepository makes the worktree a repository with one file.
func setUpRepository(t *testing.T, r fixture, shallow bool) {
	t.Helper()
	source := t.TempDir()
	git(t, source, "init", "-q")
	git(t, source, "config", "user.name", "x")
	git(t, source, "config", "user.email", "x@example.com")
	git(t, source, "commit", "-q", "--allow-empty", "-m", "first")
	assert.NilError(t, os.WriteFile(filepath.Join(source, "tracked"), nil, 0o644))
	git(t, source, "add", "tracked")
	git(t, source, "commit", "-q", "-m", "second")
	args := []string{"clone", "-q", "file://" + source, r.ws}
	if shallow {
		args = append(args, "--depth", "1")
	}
	git(t, source, args...)
	r.Share(t, r.ws)
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
}

func removeImage(t *testing.T, e engines.Engine, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_, err := e.Client(t).ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true})
	assert.Check(t, err)
}
