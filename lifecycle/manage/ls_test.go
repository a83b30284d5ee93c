package manage

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// Sandboxes whose engine does not answer are listed from their records, with a warning.
func TestListWithoutTheEngine(t *testing.T) {
	lost := errors.New("the line is down")
	big := host.Engine{Context: "big", Host: "ssh://big"}
	var said bytes.Buffer
	h := host.Host{
		Dir: t.TempDir(), StateDir: t.TempDir(), Stderr: &said, LookupEnv: func(string) (string, bool) { return "", false },
		Engine:     func() (host.API, error) { return nil, lost },
		Selected:   host.Engine{Context: "small", Host: "ssh://small"},
		SelectedBy: "DOCKER_CONTEXT",
		ConnectTo:  func(context.Context, host.Engine) (host.API, error) { return nil, lost },
	}
	assert.NilError(t, h.SaveEngine("other", host.EngineRecord{Engine: big, Root: "/other", MainRoot: "/other", Scope: gitrepo.Scope{Repo: "a/b", Branch: "main"}}))
	assert.NilError(t, h.SaveEngine("mine", host.EngineRecord{Engine: h.Selected, Root: h.Dir, MainRoot: h.Dir}))

	out, err := exec.CommandContext(t.Context(), "git", "init", "-q", h.Dir).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, scopes.Section[map[string]string]("container").Write(h.StateDir, "mine", map[string]string{}))

	mine, err := Sandboxes(t.Context(), h, ListOptions{})
	assert.NilError(t, err)
	assert.Equal(t, len(mine), 1)
	assert.Equal(t, mine[0].State, string(lifecycle.Unknown))
	assert.Check(t, is.Contains(said.String(), "Warning: some sandboxes may be missing: the line is down (container driver)\n"))
	all, err := Sandboxes(t.Context(), h, ListOptions{All: true})
	assert.NilError(t, err)
	assert.Equal(t, len(all), 2)
}
