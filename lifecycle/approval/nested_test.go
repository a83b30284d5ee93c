package approval

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

func TestCheckNested(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	inner := filepath.Join(root, "tool", "deep")
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	git(root, "init", "-q")
	assert.NilError(t, os.MkdirAll(inner, 0o755))
	asked := 0
	h := host.Host{Dir: inner, StateDir: t.TempDir()}

	assert.NilError(t, CheckNested(t.Context(), h), "a directory of the repository")
	git(filepath.Dir(inner), "init", "-q")
	assert.ErrorContains(t, CheckNested(t.Context(), h), "is not approved (it is inside repository "+root)

	answer := false
	h.Confirm = func(context.Context, string) (bool, error) { asked++; return answer, nil }
	assert.ErrorContains(t, CheckNested(t.Context(), h), "is not approved")
	answer = true
	assert.NilError(t, CheckNested(t.Context(), h))
	assert.NilError(t, CheckNested(t.Context(), h), "approved before")
	assert.Equal(t, asked, 2)
	h.Dir = root
	h.Confirm = nil
	assert.NilError(t, CheckNested(t.Context(), h), "the outer one")
}
