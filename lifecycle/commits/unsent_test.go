package commits

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// What a clone does not get while another command runs in it is a warning, but an error if
// the user wanted to send it.
func TestBusyCloneIsNotPushedTo(t *testing.T) {
	wt, tip := repository(t)
	var out bytes.Buffer
	sb := lifecycle.Sandbox{Name: "ralph-test", Root: wt.Root, Clone: true}
	g := &Git{Host: host.Host{StateDir: t.TempDir(), Stderr: &out}, Driver: answering{answer: "- HEAD refs/heads/main\n\n"}}
	repo, err := gitsync.Open(wt, sb.Name, g.Host.StateDir)
	assert.NilError(t, err)
	g.Repo = repo
	assert.NilError(t, g.Repo.Fill(t.Context(), "1:1", io.Discard))
	assert.NilError(t, g.push(t.Context(), sb, false))
	assert.Assert(t, is.Contains(out.String(), "Warning: sandbox ralph-test does not have your latest commits"))

	g.Driver, g.Repo = answering{answer: tip + " refs/heads/main\n- HEAD refs/heads/main\n\n"}, g.Repo.WithChanges()
	out.Reset()
	assert.NilError(t, g.push(t.Context(), sb, false))
	assert.Equal(t, out.String(), "")
	assert.NilError(t, os.WriteFile(filepath.Join(wt.Root, "a.txt"), nil, 0o644))
	assert.Error(t, g.push(t.Context(), sb, false), "your uncommitted changes in 1 file cannot be sent to sandbox ralph-test while another command is running in it")
}
