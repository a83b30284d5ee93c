package manage

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// A list that is empty because the engine does not answer is an error, whatever other repositories
// have on other engines.
func TestListWithoutTheEngineIsNotEmpty(t *testing.T) {
	lost := errors.New("the line is down")
	big := host.Engine{Context: "big", Host: "ssh://big"}
	h := host.Host{
		Dir: t.TempDir(), StateDir: t.TempDir(), Stderr: &bytes.Buffer{}, LookupEnv: func(string) (string, bool) { return "", false },
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

	_, err = Sandboxes(t.Context(), h, ListOptions{})
	assert.ErrorIs(t, err, lost)
	all, err := Sandboxes(t.Context(), h, ListOptions{All: true})
	assert.NilError(t, err)
	assert.Equal(t, len(all), 1)
}
