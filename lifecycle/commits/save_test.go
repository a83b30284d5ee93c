package commits

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// withLFS is a sandbox with an object of Git LFS.
type withLFS struct{ answering }

func (w withLFS) Exec(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	if strings.Contains(strings.Join(p.Args, " "), "lfs/objects") {
		w.answer = strings.Repeat("ab", 32) + "\n"
	}
	return w.answering.Exec(ctx, sb, p)
}

func TestCloneWithLFSObjectsIsKept(t *testing.T) {
	wt, tip := repository(t)
	h := host.Host{StateDir: t.TempDir(), Stderr: new(bytes.Buffer)}
	sb := lifecycle.Sandbox{Name: "ralph-test", Root: wt.Root, Clone: true, Private: true, State: lifecycle.Running}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	assert.NilError(t, err)
	assert.NilError(t, repo.Fill(t.Context(), "1:1", io.Discard))
	driver := withLFS{answering{answer: tip + " refs/heads/main\n- HEAD refs/heads/main\n\n"}}
	err = saveClone(t.Context(), h, driver, &Scan{Host: h}, wt, sb)
	assert.ErrorContains(t, err, "1 Git LFS object")
	assert.Assert(t, !gitsync.Saved(h.StateDir, sb.Name))
}
